/*
 * Both ends of a FIFO belong to one lane each, so its n-th message is sent and received by the same
 * two steps in every pass: what a step waits for follows from the plan alone. Receivers are handled
 * one after another; a FIFO is a circular list of the steps at one of its ends, by which an earlier
 * receive of it is found.
 */
#include "sim/match.h"

#include <stdlib.h>

#include "base/alloc.h"

typedef struct fifo {
  int32_t receiver;   /* to which the rest belongs, plus 1 */
  size_t send;        /* the oldest that has no receive yet, or SIM_NONE */
  size_t last_send;   /* the latest */
  size_t first, last; /* receives; SIM_NONE: none */
} fifo_t;

typedef struct match {
  sim_t *sim;
  size_t channels; /* FIFOs of messages between two ranks; those of signals follow, one per lane */
  size_t row;      /* both together */
  size_t *sent;    /* [ranks]: the first step that sends to this rank, or SIM_NONE */
  size_t *next;    /* [count]: the next one of the same list */
  size_t *before;  /* [count]: the receive of the same FIFO before this one; before the first: the
                      last */
  fifo_t *fifos;   /* [ranks][row]: by source, for the receiver at hand */
} match_t;

static void await(sim_t *sim, sim_link_t *link, size_t awaited) {
  link->awaited = awaited;
  link->awaited_lane = sim->links[awaited].lane;
  link->awaited_index = (uint32_t)(awaited - sim->first[link->awaited_lane]);
}

/* ---- the two ends ---------------------------------------------------------------------------*/

/* channel: of a message; -1: a signal's. lane: of the step. */
static fifo_t *fifo_of(const match_t *match, int32_t source, int32_t receiver, int32_t channel,
                       size_t lane) {
  size_t signal = match->channels + lane % (size_t)match->sim->plan->lanes;
  size_t column = channel >= 0 ? (size_t)channel : signal;
  fifo_t *fifo = &match->fifos[(size_t)source * match->row + column];
  if (fifo->receiver != receiver + 1) {
    *fifo = (fifo_t){receiver + 1, SIM_NONE, SIM_NONE, SIM_NONE, SIM_NONE};
  }
  return fifo;
}

/* Appends a step that sends to its FIFO. */
static void push(const match_t *match, int32_t receiver, size_t number) {
  const sim_t *sim = match->sim;
  const plan_step_t *step = sim_plan_step(sim, number);
  size_t lane = sim->links[number].lane;
  int32_t channel = step->kind == PLAN_SEND ? step->send.channel : -1;
  fifo_t *fifo = fifo_of(match, sim->cursors[lane].rank, receiver, channel, lane);
  match->next[number] = SIM_NONE;
  if (fifo->send == SIM_NONE) {
    fifo->send = number;
  } else {
    match->next[fifo->last_send] = number;
  }
  fifo->last_send = number;
}

/* Pairs a receive or wait with the oldest step that sends to it. */
static void take(const match_t *match, fifo_t *fifo, size_t number) {
  sim_link_t *link = &match->sim->links[number];
  size_t send = fifo->send;
  link->awaited = SIM_NEVER;
  if (send == SIM_NONE) return;
  fifo->send = match->next[send];
  await(match->sim, link, send);
  link->partner = send;
  match->sim->links[send].partner = number;
  if (fifo->first == SIM_NONE) fifo->first = number;
  match->before[number] = fifo->last;
  match->before[fifo->first] = fifo->last = number;
}

static void take_all(const match_t *match, int32_t rank, size_t lane) {
  const sim_t *sim = match->sim;
  const plan_step_t *step = sim_plan_lane(sim, lane)->steps;
  for (size_t number = sim->first[lane]; number < sim->first[lane + 1]; number++, step++) {
    if (step->kind == PLAN_RECV) {
      take(match, fifo_of(match, step->recv.peer, rank, step->recv.channel, lane), number);
    } else if (step->kind == PLAN_WAIT) {
      take(match, fifo_of(match, step->wait.peer, rank, -1, lane), number);
    }
  }
}

static void match_receiver(const match_t *match, int32_t rank) {
  for (size_t send = match->sent[rank]; send != SIM_NONE;) {
    size_t next = match->next[send];
    push(match, rank, send);
    send = next;
  }
  for (int32_t lane = 0; lane < match->sim->plan->lanes; lane++) {
    take_all(match, rank, sim_rank_lane(match->sim, rank, lane));
  }
}

/* ---- what a step waits for ------------------------------------------------------------------*/

/* The receive that makes room for a message: that of the message `depth` before it. */
static void bound_send(const match_t *match, sim_link_t *link) {
  size_t depth = match->sim->depth, receive = link->partner;
  if (receive == SIM_NONE) {
    link->awaited = depth == 0 ? SIM_NEVER : SIM_NONE;
    return;
  }
  for (size_t i = 0; i < depth; i++) {
    size_t before = match->before[receive];
    link->lag += before >= receive;
    receive = before;
  }
  await(match->sim, link, receive);
}

static void bind_lane(const match_t *match, size_t lane) {
  sim_t *sim = match->sim;
  const plan_step_t *step = sim_plan_lane(sim, lane)->steps;
  for (size_t number = sim->first[lane]; number < sim->first[lane + 1]; number++, step++) {
    if (step->kind == PLAN_SEND && sim->depth != SIM_UNBOUNDED) {
      bound_send(match, &sim->links[number]);
    } else if (step->kind == PLAN_AFTER) {
      size_t other = sim_rank_lane(sim, sim->cursors[lane].rank, step->after.lane);
      await(sim, &sim->links[number], sim->first[other] + (size_t)step->after.step);
    }
  }
}

/* ---- all of it ------------------------------------------------------------------------------*/

/* Puts the steps of a lane that send at the head of the lists of their receivers. */
static void list_sends(const match_t *match, size_t lane) {
  const sim_t *sim = match->sim;
  const plan_step_t *steps = sim_plan_lane(sim, lane)->steps;
  for (size_t index = sim_lane_steps(sim, lane); index-- > 0;) {
    const plan_step_t *step = &steps[index];
    if (step->kind != PLAN_SEND && step->kind != PLAN_SIGNAL) continue;
    int32_t peer = step->kind == PLAN_SEND ? step->send.peer : step->signal.peer;
    match->next[sim->first[lane] + index] = match->sent[peer];
    match->sent[peer] = sim->first[lane] + index;
  }
}

static void number_steps(match_t *match, size_t lane) {
  const sim_t *sim = match->sim;
  const plan_step_t *step = sim_plan_lane(sim, lane)->steps;
  for (size_t number = sim->first[lane]; number < sim->first[lane + 1]; number++, step++) {
    sim->links[number] =
        (sim_link_t){.partner = SIM_NONE, .awaited = SIM_NONE, .lane = (uint32_t)lane};
    int32_t channel = -1;
    if (step->kind == PLAN_SEND) channel = step->send.channel;
    if (step->kind == PLAN_RECV) channel = step->recv.channel;
    if (channel >= (int32_t)match->channels) match->channels = (size_t)channel + 1;
  }
}

static coll_status_t match_all(match_t *match) {
  static const char what[] = "a simulation";
  const sim_t *sim = match->sim;
  int32_t ranks = sim->plan->shape.size;
  for (size_t lane = 0; lane < sim->lanes; lane++) number_steps(match, lane);
  match->row = match->channels + (size_t)sim->plan->lanes;
  size_t fifos = (size_t)ranks * match->row;
  COLL_TRY(base_alloc((size_t)ranks, sizeof *match->sent, what, (void **)&match->sent));
  COLL_TRY(base_alloc(sim->count + 1, sizeof *match->next, what, (void **)&match->next));
  COLL_TRY(base_alloc(sim->count + 1, sizeof *match->before, what, (void **)&match->before));
  COLL_TRY(base_alloc(fifos, sizeof *match->fifos, what, (void **)&match->fifos));
  for (int32_t rank = 0; rank < ranks; rank++) match->sent[rank] = SIM_NONE;
  for (size_t lane = sim->lanes; lane-- > 0;) list_sends(match, lane);
  for (int32_t rank = 0; rank < ranks; rank++) match_receiver(match, rank);
  for (size_t lane = 0; lane < sim->lanes; lane++) bind_lane(match, lane);
  return COLL_OK;
}

coll_status_t sim_match(sim_t *sim) {
  match_t match = {.sim = sim};
  coll_status_t status = match_all(&match);
  free(match.fifos);
  free(match.before);
  free(match.next);
  free(match.sent);
  return status;
}
