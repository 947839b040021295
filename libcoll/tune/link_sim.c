/*
 * A simulation by discrete events. An event is a lane that may be able to take its next step;
 * events are handled in order of time, so that messages enter wires in the order in which they are
 * sent. A lane that is blocked has no event until what it waits for happens.
 */
#include "tune/link_sim.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "sim/sim.h"
#include "tune/link_events.h"
#include "tune/step_counts.h"
#include "tune/wires.h"

/* Passes that are simulated, at least; more while all their steps are at most STEPS_MAX. Plans of
 * few steps need many passes: the FIFOs between all of their ranks have to fill before each further
 * pass takes as long as the last. */
enum { PASSES_MIN = 4, STEPS_MAX = TUNE_SIMULATED_MAX / 4 };

/* A time, and the terms of the chain of steps that leads to it. */
typedef struct chain {
  uint64_t time_ps;
  uint64_t term_ps[TUNE_TERM_COUNT];
} chain_t;

typedef struct lane_state {
  size_t awaited;  /* a blocked lane: the step of a peer that it waits for; SIM_NONE: of none */
  bool waits_rank; /* it waits for another lane of its rank */
  chain_t chain;
} lane_state_t;

typedef struct core {
  uint64_t free_ps;
  int32_t rank; /* that it ran last */
} core_t;

typedef struct link_sim {
  const tune_pricing_t *pricing;
  tune_wires_t wires;
  sim_t sim;
  lane_state_t *states;    /* [lanes] */
  chain_t *ends;           /* [passes * sim.count]: of steps */
  chain_t *arrivals;       /* [passes * sim.count]: of what steps have sent */
  core_t *cores;           /* [ranks] */
  tune_touched_t *touched; /* [ranks] */
  tune_events_t events;    /* every lane has at most one */
} link_sim_t;

/* ---- events ---------------------------------------------------------------------------------*/

static void schedule(link_sim_t *link, size_t lane, uint64_t time_ps) {
  tune_events_push(&link->events, (tune_event_t){.time_ps = time_ps, .lane = lane});
}

static uint64_t later_of(uint64_t a, uint64_t b) {
  return a > b ? a : b;
}

static void wake(link_sim_t *link, size_t lane, uint64_t time_ps) {
  lane_state_t *state = &link->states[lane];
  state->awaited = SIM_NONE;
  state->waits_rank = false;
  schedule(link, lane, later_of(time_ps, state->chain.time_ps));
}

static void wake_lanes_of(link_sim_t *link, int32_t rank, uint64_t time_ps) {
  size_t first = sim_rank_lane(&link->sim, rank, 0);
  for (size_t lane = first; lane < first + (size_t)link->sim.plan->lanes; lane++) {
    if (link->states[lane].waits_rank) wake(link, lane, time_ps);
  }
}

/* Wakes the lane at the other end of a message or signal, if it waits for this step. */
static void wake_partner(link_sim_t *link, const sim_step_t *at, uint64_t time_ps) {
  if (at->link->partner == SIM_NONE) return;
  size_t lane = link->sim.links[at->link->partner].lane;
  if (link->states[lane].awaited == at->number) wake(link, lane, time_ps);
}

/* ---- waiting --------------------------------------------------------------------------------*/

static core_t *core_of(const link_sim_t *link, int32_t rank) {
  const tune_call_t *call = link->pricing->call;
  int64_t core = call->size > call->cores ? (int64_t)rank * call->cores / call->size : rank;
  return &link->cores[core];
}

/* Continues the chain by another that ends later. */
static void follow(chain_t *chain, const chain_t *other) {
  if (other->time_ps > chain->time_ps) *chain = *other;
}

/* A pass of a rank begins when all its lanes have ended the one before. */
static void follow_passes(link_sim_t *link, size_t lane, const sim_step_t *at) {
  for (int32_t i = 0; at->pass > 0 && i < link->sim.plan->lanes; i++) {
    size_t other = sim_rank_lane(&link->sim, at->rank, i);
    if (sim_lane_steps(&link->sim, other) == 0) continue;
    follow(&link->states[lane].chain,
           &link->ends[sim_last_number(&link->sim, other, at->pass - 1)]);
  }
}

/* Continues the chain of what the step waited for. A send that waited was woken when there was
 * room. */
static void follow_awaited(link_sim_t *link, size_t lane, const sim_step_t *at) {
  chain_t *chain = &link->states[lane].chain;
  if (at->step->kind == PLAN_AFTER) {
    follow(chain, &link->ends[at->awaited]);
  } else if (at->step->kind != PLAN_SEND) {
    follow(chain, &link->arrivals[at->awaited]);
  }
}

/* Whether the lane's step may run, maybe at a later time, to which its chain is extended. If not,
 * the lane waits. */
static bool is_ready(link_sim_t *link, size_t lane, sim_step_t *at) {
  sim_state_t found = sim_look(&link->sim, lane, at);
  lane_state_t *state = &link->states[lane];
  if (found == SIM_ENDED) return false;
  state->waits_rank = found == SIM_AWAITS_PASS;
  if (found == SIM_AWAITS_PASS) return false;
  if (at->index == 0) follow_passes(link, lane, at);
  if (found == SIM_READY) {
    if (at->awaited != SIM_NONE) follow_awaited(link, lane, at);
    return true;
  }
  if (at->step->kind == PLAN_AFTER) {
    state->waits_rank = true;
  } else {
    state->awaited = at->awaited;
  }
  return false;
}

/* ---- one step -------------------------------------------------------------------------------*/

static void extend(chain_t *chain, tune_term_t term, uint64_t time_ps) {
  if (time_ps <= chain->time_ps) return;
  chain->term_ps[term] += time_ps - chain->time_ps;
  chain->time_ps = time_ps;
}

/* *chain: when what is sent at the end of *chain arrives. */
static coll_status_t transfer(link_sim_t *link, int32_t from, int32_t to, int64_t chunks,
                              chain_t *chain) {
  uint64_t bytes = (uint64_t)chunks * tune_part_bytes(link->pricing), arrival_ps;
  bool by_wire;
  COLL_TRY(tune_wires_send(&link->wires, from, to, bytes, chain->time_ps, &arrival_ps, &by_wire));
  if (by_wire) {
    extend(chain, TUNE_TERM_LINKS, arrival_ps);
  } else {
    extend(chain, TUNE_TERM_HOPS, arrival_ps + link->pricing->machine->fixed_ps[TUNE_HOP]);
  }
  return COLL_OK;
}

/* Loads and stores of other ranks' memory also take the wires between them. */
static coll_status_t access_span(link_sim_t *link, int32_t rank, const plan_span_t *span,
                                 bool is_store, uint64_t start_ps, chain_t *chain) {
  if (span->rank == rank) return COLL_OK;
  chain_t access = *chain;
  access.time_ps = start_ps;
  COLL_TRY(transfer(link, is_store ? rank : span->rank, is_store ? span->rank : rank, span->count,
                    &access));
  extend(chain, TUNE_TERM_LINKS, access.time_ps);
  return COLL_OK;
}

static coll_status_t access_spans(link_sim_t *link, int32_t rank, const plan_step_t *step,
                                  uint64_t start_ps, chain_t *chain) {
  const plan_program_t *program = &link->sim.plan->programs[rank];
  if (step->kind == PLAN_COPY) {
    COLL_TRY(access_span(link, rank, &step->copy.src, false, start_ps, chain));
    return access_span(link, rank, &step->copy.dst, true, start_ps, chain);
  }
  if (step->kind != PLAN_REDUCE) return COLL_OK;
  for (int32_t i = 0; i < step->reduce.source_count; i++) {
    const plan_span_t *source = &program->sources[step->reduce.first_source + i];
    COLL_TRY(access_span(link, rank, source, false, start_ps, chain));
  }
  return access_span(link, rank, &step->reduce.dst, true, start_ps, chain);
}

/* Sends the message or signal of the step at the end of *chain. */
static coll_status_t send(link_sim_t *link, const sim_step_t *at, const chain_t *chain) {
  const plan_step_t *step = at->step;
  bool is_signal = step->kind == PLAN_SIGNAL;
  int32_t peer = is_signal ? step->signal.peer : step->send.peer;
  chain_t *arrival = &link->arrivals[at->number];
  *arrival = *chain;
  COLL_TRY(transfer(link, at->rank, peer, is_signal ? 0 : step->send.src.count, arrival));
  wake_partner(link, at, arrival->time_ps);
  return COLL_OK;
}

/* A core that ran another rank last switches to this one. So does one all of whose ranks have
 * waited: they poll in turn. */
static void switch_to(const link_sim_t *link, int32_t rank, chain_t *chain) {
  core_t *core = core_of(link, rank);
  bool has_idled = chain->time_ps > core->free_ps;
  if ((core->rank != rank || has_idled) && link->pricing->ranks_per_core > 1) {
    extend(chain, TUNE_TERM_HOPS, chain->time_ps + link->pricing->machine->fixed_ps[TUNE_SWITCH]);
  }
  core->rank = rank;
}

/* Takes the step at the end of the lane's chain. */
static coll_status_t take_step(link_sim_t *link, size_t lane, const sim_step_t *at) {
  const plan_t *plan = link->sim.plan;
  const plan_lane_t *steps = &plan->programs[at->rank].lanes[at->lane];
  tune_touched_t *touched = &link->touched[at->rank];
  chain_t *chain = &link->states[lane].chain;
  if (at->index == 0 && at->lane == 0) tune_touched_forget(plan, at->rank, touched);
  switch_to(link, at->rank, chain);
  uint64_t start_ps = chain->time_ps, term_ps[TUNE_TERM_COUNT];
  const tune_counts_t counts = tune_step_counts(plan, at->rank, steps, at->index, touched);
  tune_price(link->pricing, &counts, term_ps);
  for (int term = 0; term < TUNE_TERM_COUNT; term++) chain->term_ps[term] += term_ps[term];
  chain->time_ps += tune_price_sum(term_ps);
  core_of(link, at->rank)->free_ps = chain->time_ps;
  COLL_TRY(access_spans(link, at->rank, at->step, start_ps, chain));
  link->ends[at->number] = *chain;
  sim_advance(&link->sim, lane);
  if (at->step->kind == PLAN_SEND || at->step->kind == PLAN_SIGNAL) {
    COLL_TRY(send(link, at, chain));
  } else {
    wake_partner(link, at, chain->time_ps);
  }
  wake_lanes_of(link, at->rank, chain->time_ps);
  schedule(link, lane, chain->time_ps);
  return COLL_OK;
}

static coll_status_t handle(link_sim_t *link, const tune_event_t *event) {
  size_t lane = event->lane;
  sim_step_t at;
  if (!is_ready(link, lane, &at)) return COLL_OK;
  chain_t *chain = &link->states[lane].chain;
  extend(chain, TUNE_TERM_HOPS, event->time_ps);
  /* A rank keeps its core until it waits: others of the core are queued behind its next step. */
  uint64_t free_ps = core_of(link, at.rank)->free_ps;
  bool is_queued = free_ps > chain->time_ps;
  if (is_queued) extend(chain, TUNE_TERM_HOPS, free_ps);
  if (chain->time_ps == event->time_ps) return take_step(link, lane, &at);
  tune_events_push(&link->events, (tune_event_t){chain->time_ps, is_queued, lane});
  return COLL_OK;
}

/* ---- a run ----------------------------------------------------------------------------------*/

/* To be closed also on failure. */
static coll_status_t open_link_sim(link_sim_t *link, const plan_t *plan, size_t passes) {
  static const char what[] = "a simulation";
  size_t ranks = (size_t)plan->shape.size;
  sim_t *sim = &link->sim;
  COLL_TRY(tune_wires_open(&link->wires, plan->shape.layout->fabric));
  COLL_TRY(sim_open(plan, PLAN_FIFO_DEPTH, sim));
  sim_begin(sim, passes, false);
  size_t numbers = sim->count * passes + 1;
  COLL_TRY(base_alloc(sim->lanes, sizeof *link->states, what, (void **)&link->states));
  for (size_t lane = 0; lane < sim->lanes; lane++) link->states[lane].awaited = SIM_NONE;
  COLL_TRY(base_alloc(numbers, sizeof *link->ends, what, (void **)&link->ends));
  COLL_TRY(base_alloc(numbers, sizeof *link->arrivals, what, (void **)&link->arrivals));
  COLL_TRY(base_alloc(ranks, sizeof *link->cores, what, (void **)&link->cores));
  for (size_t i = 0; i < ranks; i++) link->cores[i].rank = -1;
  COLL_TRY(base_alloc(sim->lanes, sizeof *link->events.heap, what, (void **)&link->events.heap));
  COLL_TRY(base_alloc(ranks, sizeof *link->touched, what, (void **)&link->touched));
  for (int32_t rank = 0; rank < plan->shape.size; rank++) {
    COLL_TRY(tune_touched_create(plan, rank, link->pricing->profile->can, &link->touched[rank]));
  }
  return COLL_OK;
}

static void close_link_sim(link_sim_t *link, const plan_t *plan) {
  for (int32_t rank = 0; link->touched != NULL && rank < plan->shape.size; rank++) {
    tune_touched_free(&link->touched[rank]);
  }
  free(link->touched);
  free(link->events.heap);
  free(link->cores);
  free(link->arrivals);
  free(link->ends);
  free(link->states);
  sim_close(&link->sim);
  tune_wires_close(&link->wires);
}

static coll_status_t run(link_sim_t *link) {
  for (size_t lane = 0; lane < link->sim.lanes; lane++) {
    if (sim_lane_steps(&link->sim, lane) > 0) schedule(link, lane, 0);
  }
  while (link->events.count > 0) {
    const tune_event_t event = tune_events_pop(&link->events);
    COLL_TRY(handle(link, &event));
  }
  return sim_check_ended(&link->sim);
}

/* When the last rank ends its first `passes` passes. */
static chain_t last_end(const link_sim_t *link, size_t passes) {
  chain_t last = {0};
  for (size_t lane = 0; lane < link->sim.lanes; lane++) {
    if (sim_lane_steps(&link->sim, lane) == 0) continue;
    follow(&last, &link->ends[sim_last_number(&link->sim, lane, passes - 1)]);
  }
  return last;
}

/* Full FIFOs repeat the same times with each PLAN_FIFO_DEPTH passes. */
static size_t period_of(size_t passes) {
  size_t half = passes / 2;
  return half > PLAN_FIFO_DEPTH ? half / PLAN_FIFO_DEPTH * PLAN_FIFO_DEPTH : half;
}

/* Further passes last as long as the later half of those simulated. The terms grow in their
 * proportions. */
static void report(const link_sim_t *link, tune_link_times_t *times) {
  const chain_t last = last_end(link, link->sim.passes);
  size_t more = link->pricing->passes - link->sim.passes, period = period_of(link->sim.passes);
  uint64_t more_ps = 0;
  if (more > 0) {
    uint64_t period_ps = last.time_ps - last_end(link, link->sim.passes - period).time_ps;
    more_ps = tune_share(period_ps, more, period);
  }
  for (int term = 0; term < TUNE_TERM_COUNT; term++) {
    times->term_ps[term] =
        last.term_ps[term] + tune_share(more_ps, last.term_ps[term], last.time_ps);
  }
  times->total_ps = tune_price_sum(times->term_ps);
  times->bottleneck = tune_wires_bottleneck(&link->wires);
  tune_bottleneck_t *bottleneck = &times->bottleneck;
  bottleneck->bytes = tune_share(bottleneck->bytes, link->pricing->passes, link->sim.passes);
  bottleneck->busy_ps = tune_share(bottleneck->busy_ps, link->pricing->passes, link->sim.passes);
}

static size_t simulated_passes(const tune_pricing_t *pricing, const plan_t *plan) {
  size_t steps = 0, passes = PASSES_MIN;
  for (int32_t rank = 0; rank < plan->shape.size; rank++) {
    for (int32_t lane = 0; lane < plan->lanes; lane++) {
      steps += plan->programs[rank].lanes[lane].count;
    }
  }
  if (steps > 0 && STEPS_MAX / steps > passes) passes = STEPS_MAX / steps;
  return pricing->passes < passes ? pricing->passes : passes;
}

coll_status_t tune_link_sim(const tune_pricing_t *pricing, const plan_t *plan,
                            tune_link_times_t *times) {
  link_sim_t link = {.pricing = pricing};
  coll_status_t status = open_link_sim(&link, plan, simulated_passes(pricing, plan));
  if (status == COLL_OK) status = run(&link);
  if (status == COLL_OK) report(&link, times);
  close_link_sim(&link, plan);
  return status;
}
