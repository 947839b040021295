/*
 * A simulation by discrete events. An event is a lane that may be able to take its next step;
 * events are handled in order of time, so that messages enter wires in the order in which they are
 * sent. A lane that is blocked has no event until what it waits for happens.
 */
#include "tune/link_sim.h"

#include <stdlib.h>

#include "base/memory.h"
#include "base/names.h"
#include "tune/link_events.h"
#include "tune/step_counts.h"
#include "tune/wires.h"

#define NONE SIZE_MAX

/* Passes that are simulated, at least; more while all their steps are at most STEPS_MAX. Plans of
 * few steps need many passes: the FIFOs between all of their ranks have to fill before each further
 * pass takes as long as the last. */
enum { PASSES_MIN = 4, STEPS_MAX = TUNE_SIMULATED_MAX / 4 };

/* A time, and the terms of the chain of steps that leads to it. */
typedef struct chain {
  uint64_t time_ps;
  uint64_t term_ps[TUNE_TERM_COUNT];
} chain_t;

typedef struct fifo {
  size_t head, tail; /* step numbers of the oldest message not yet received, and of the latest */
  int32_t queued;
  size_t receiver, sender; /* lanes that wait; NONE: no one */
} fifo_t;

typedef struct lane_state {
  size_t done; /* steps, over all passes */
  bool waits;  /* for another lane of the rank */
  chain_t chain;
} lane_state_t;

typedef struct core {
  uint64_t free_ps;
  int32_t rank; /* that it ran last */
} core_t;

typedef struct link_sim {
  const tune_pricing_t *pricing;
  const plan_t *plan;
  tune_wires_t wires;
  size_t passes, lanes, count; /* lanes of all ranks; steps of all lanes in one pass */
  size_t channels;
  size_t *first;           /* [lanes + 1]: number of each lane's first step */
  lane_state_t *states;    /* [lanes] */
  chain_t *ends;           /* [passes * count]: of steps */
  chain_t *arrivals;       /* [passes * count]: of what steps have sent */
  size_t *queue;           /* [passes * count]: the next of the same FIFO */
  fifo_t *messages;        /* [ranks * ranks * channels] */
  fifo_t *signals;         /* [ranks * lanes] */
  core_t *cores;           /* [ranks] */
  tune_touched_t *touched; /* [ranks] */
  tune_events_t events;    /* every lane has at most one */
} link_sim_t;

/* ---- events ---------------------------------------------------------------------------------*/

static void schedule(link_sim_t *sim, size_t lane, uint64_t time_ps) {
  tune_events_push(&sim->events, (tune_event_t){.time_ps = time_ps, .lane = lane});
}

static uint64_t later_of(uint64_t a, uint64_t b) {
  return a > b ? a : b;
}

/* Schedules a lane that waited, and forgets that it did. */
static void wake(link_sim_t *sim, size_t *waiting, uint64_t time_ps) {
  if (*waiting == NONE) return;
  schedule(sim, *waiting, later_of(time_ps, sim->states[*waiting].chain.time_ps));
  *waiting = NONE;
}

/* ---- lanes ----------------------------------------------------------------------------------*/

static int32_t rank_of(const link_sim_t *sim, size_t lane) {
  return (int32_t)(lane / (size_t)sim->plan->lanes);
}

static size_t lane_steps(const link_sim_t *sim, size_t lane) {
  return sim->first[lane + 1] - sim->first[lane];
}

/* The index of a step in ends[], arrivals[] and queue[]. */
static size_t number_of(const link_sim_t *sim, size_t lane, size_t done) {
  size_t steps = lane_steps(sim, lane);
  return done / steps * sim->count + sim->first[lane] + done % steps;
}

static core_t *core_of(const link_sim_t *sim, int32_t rank) {
  const tune_call_t *call = sim->pricing->call;
  int64_t core = call->size > call->cores ? (int64_t)rank * call->cores / call->size : rank;
  return &sim->cores[core];
}

static void wake_lanes_of(link_sim_t *sim, int32_t rank, uint64_t time_ps) {
  for (int32_t i = 0; i < sim->plan->lanes; i++) {
    size_t lane = (size_t)(rank * sim->plan->lanes + i);
    if (!sim->states[lane].waits) continue;
    sim->states[lane].waits = false;
    wake(sim, &(size_t){lane}, time_ps);
  }
}

static fifo_t *message_fifo(const link_sim_t *sim, int32_t source, int32_t destination,
                            int32_t channel) {
  size_t pair = (size_t)source * (size_t)sim->plan->shape.size + (size_t)destination;
  return &sim->messages[pair * sim->channels + (size_t)channel];
}

/* lane: of the destination or of the source, as both have the same number. */
static fifo_t *signal_fifo(const link_sim_t *sim, int32_t source, int32_t destination,
                           size_t lane) {
  size_t lanes = (size_t)sim->plan->lanes, ranks = (size_t)sim->plan->shape.size;
  size_t pair = (size_t)source * ranks + (size_t)destination;
  return &sim->signals[pair * lanes + lane % lanes];
}

/* ---- waiting --------------------------------------------------------------------------------*/

/* Continues the chain by another that ends later. */
static void follow(chain_t *chain, const chain_t *other) {
  if (other->time_ps > chain->time_ps) *chain = *other;
}

/* A pass of a rank begins when all its lanes have ended the one before. */
static bool may_begin(link_sim_t *sim, size_t lane, size_t pass) {
  int32_t rank = rank_of(sim, lane);
  for (int32_t i = 0; i < sim->plan->lanes; i++) {
    size_t other = (size_t)(rank * sim->plan->lanes + i);
    if (sim->states[other].done < pass * lane_steps(sim, other)) return false;
  }
  for (int32_t i = 0; pass > 0 && i < sim->plan->lanes; i++) {
    size_t other = (size_t)(rank * sim->plan->lanes + i), steps = lane_steps(sim, other);
    if (steps == 0) continue;
    follow(&sim->states[lane].chain, &sim->ends[number_of(sim, other, pass * steps - 1)]);
  }
  return true;
}

/* Whether there is something in the FIFO, which *chain then follows; else the lane waits. */
static bool has_arrived(const link_sim_t *sim, fifo_t *fifo, size_t lane, chain_t *chain) {
  if (fifo->head == NONE) {
    fifo->receiver = lane;
    return false;
  }
  follow(chain, &sim->arrivals[fifo->head]);
  return true;
}

/* FIFOs hold as many messages as every transport provides for. */
static bool has_room(fifo_t *fifo, size_t lane) {
  if (fifo->queued < PLAN_FIFO_DEPTH) return true;
  fifo->sender = lane;
  return false;
}

static bool is_after(link_sim_t *sim, size_t lane, const plan_step_t *step, size_t pass) {
  size_t other = (size_t)(rank_of(sim, lane) * sim->plan->lanes + step->after.lane);
  size_t wanted = pass * lane_steps(sim, other) + (size_t)step->after.step;
  if (sim->states[other].done <= wanted) return false;
  follow(&sim->states[lane].chain, &sim->ends[number_of(sim, other, wanted)]);
  return true;
}

/* Whether the step's input is there, maybe at a later time, to which its chain is extended. */
static bool is_ready(link_sim_t *sim, size_t lane, const plan_step_t *step, size_t pass) {
  int32_t rank = rank_of(sim, lane);
  chain_t *chain = &sim->states[lane].chain;
  switch (step->kind) {
    case PLAN_RECV:
      return has_arrived(sim, message_fifo(sim, step->recv.peer, rank, step->recv.channel), lane,
                         chain);
    case PLAN_WAIT:
      return has_arrived(sim, signal_fifo(sim, step->wait.peer, rank, lane), lane, chain);
    case PLAN_SEND:
      return has_room(message_fifo(sim, rank, step->send.peer, step->send.channel), lane);
    case PLAN_AFTER:
      sim->states[lane].waits = !is_after(sim, lane, step, pass);
      return !sim->states[lane].waits;
    default: return true;
  }
}

/* ---- one step -------------------------------------------------------------------------------*/

static void extend(chain_t *chain, tune_term_t term, uint64_t time_ps) {
  if (time_ps <= chain->time_ps) return;
  chain->term_ps[term] += time_ps - chain->time_ps;
  chain->time_ps = time_ps;
}

/* *chain: when what is sent at the end of *chain arrives. */
static coll_status_t transfer(link_sim_t *sim, int32_t from, int32_t to, int64_t chunks,
                              chain_t *chain) {
  uint64_t bytes = (uint64_t)chunks * tune_part_bytes(sim->pricing), arrival_ps;
  bool by_wire;
  COLL_TRY(tune_wires_send(&sim->wires, from, to, bytes, chain->time_ps, &arrival_ps, &by_wire));
  if (by_wire) {
    extend(chain, TUNE_TERM_LINKS, arrival_ps);
  } else {
    extend(chain, TUNE_TERM_HOPS, arrival_ps + sim->pricing->machine->fixed_ps[TUNE_HOP]);
  }
  return COLL_OK;
}

/* Loads and stores of other ranks' memory also take the wires between them. */
static coll_status_t access_span(link_sim_t *sim, int32_t rank, const plan_span_t *span,
                                 bool is_store, uint64_t start_ps, chain_t *chain) {
  if (span->rank == rank) return COLL_OK;
  chain_t access = *chain;
  access.time_ps = start_ps;
  COLL_TRY(transfer(sim, is_store ? rank : span->rank, is_store ? span->rank : rank, span->count,
                    &access));
  extend(chain, TUNE_TERM_LINKS, access.time_ps);
  return COLL_OK;
}

static coll_status_t access_spans(link_sim_t *sim, int32_t rank, const plan_step_t *step,
                                  uint64_t start_ps, chain_t *chain) {
  const plan_program_t *program = &sim->plan->programs[rank];
  if (step->kind == PLAN_COPY) {
    COLL_TRY(access_span(sim, rank, &step->copy.src, false, start_ps, chain));
    return access_span(sim, rank, &step->copy.dst, true, start_ps, chain);
  }
  if (step->kind != PLAN_REDUCE) return COLL_OK;
  for (int32_t i = 0; i < step->reduce.source_count; i++) {
    const plan_span_t *source = &program->sources[step->reduce.first_source + i];
    COLL_TRY(access_span(sim, rank, source, false, start_ps, chain));
  }
  return access_span(sim, rank, &step->reduce.dst, true, start_ps, chain);
}

static void pop(link_sim_t *sim, fifo_t *fifo, uint64_t time_ps) {
  fifo->head = sim->queue[fifo->head];
  fifo->queued--;
  wake(sim, &fifo->sender, time_ps);
}

static coll_status_t push(link_sim_t *sim, fifo_t *fifo, size_t number, int32_t from, int32_t to,
                          int64_t chunks, const chain_t *sent) {
  chain_t *arrival = &sim->arrivals[number];
  *arrival = *sent;
  COLL_TRY(transfer(sim, from, to, chunks, arrival));
  sim->queue[number] = NONE;
  if (fifo->head == NONE) {
    fifo->head = number;
  } else {
    sim->queue[fifo->tail] = number;
  }
  fifo->tail = number;
  fifo->queued++;
  wake(sim, &fifo->receiver, arrival->time_ps);
  return COLL_OK;
}

/* What the step does to FIFOs at the end of *chain. */
static coll_status_t exchange(link_sim_t *sim, size_t lane, const plan_step_t *step, size_t number,
                              const chain_t *chain) {
  int32_t rank = rank_of(sim, lane);
  switch (step->kind) {
    case PLAN_RECV:
      pop(sim, message_fifo(sim, step->recv.peer, rank, step->recv.channel), chain->time_ps);
      return COLL_OK;
    case PLAN_WAIT:
      pop(sim, signal_fifo(sim, step->wait.peer, rank, lane), chain->time_ps);
      return COLL_OK;
    case PLAN_SEND:
      return push(sim, message_fifo(sim, rank, step->send.peer, step->send.channel), number, rank,
                  step->send.peer, step->send.src.count, chain);
    case PLAN_SIGNAL:
      return push(sim, signal_fifo(sim, rank, step->signal.peer, lane), number, rank,
                  step->signal.peer, 0, chain);
    default: return COLL_OK;
  }
}

/* A core that ran another rank last switches to this one. */
static void switch_to(const link_sim_t *sim, int32_t rank, chain_t *chain) {
  core_t *core = core_of(sim, rank);
  if (core->rank != rank && sim->pricing->ranks_per_core > 1) {
    extend(chain, TUNE_TERM_HOPS, chain->time_ps + sim->pricing->machine->fixed_ps[TUNE_SWITCH]);
  }
  core->rank = rank;
}

/* Takes the step at the end of the lane's chain. */
static coll_status_t take_step(link_sim_t *sim, size_t lane, const plan_lane_t *steps,
                               size_t index) {
  int32_t rank = rank_of(sim, lane);
  lane_state_t *state = &sim->states[lane];
  chain_t *chain = &state->chain;
  switch_to(sim, rank, chain);
  uint64_t start_ps = chain->time_ps, term_ps[TUNE_TERM_COUNT];
  const tune_counts_t counts = tune_step_counts(sim->plan, rank, steps, index, &sim->touched[rank]);
  tune_price(sim->pricing, &counts, term_ps);
  for (int term = 0; term < TUNE_TERM_COUNT; term++) chain->term_ps[term] += term_ps[term];
  chain->time_ps += tune_price_sum(term_ps);
  core_of(sim, rank)->free_ps = chain->time_ps;
  COLL_TRY(access_spans(sim, rank, &steps->steps[index], start_ps, chain));
  size_t number = number_of(sim, lane, state->done++);
  sim->ends[number] = *chain;
  COLL_TRY(exchange(sim, lane, &steps->steps[index], number, chain));
  wake_lanes_of(sim, rank, chain->time_ps);
  schedule(sim, lane, chain->time_ps);
  return COLL_OK;
}

static coll_status_t handle(link_sim_t *sim, const tune_event_t *event) {
  size_t lane = event->lane, total = lane_steps(sim, lane) * sim->passes;
  lane_state_t *state = &sim->states[lane];
  if (state->done == total) return COLL_OK;
  int32_t rank = rank_of(sim, lane);
  const plan_lane_t *steps = &sim->plan->programs[rank].lanes[lane % (size_t)sim->plan->lanes];
  size_t pass = state->done / steps->count, index = state->done % steps->count;
  state->waits = index == 0 && !may_begin(sim, lane, pass);
  if (state->waits || !is_ready(sim, lane, &steps->steps[index], pass)) return COLL_OK;
  extend(&state->chain, TUNE_TERM_HOPS, event->time_ps);
  /* A rank keeps its core until it waits: others of the core are queued behind its next step. */
  bool is_queued = core_of(sim, rank)->free_ps > state->chain.time_ps;
  if (is_queued) extend(&state->chain, TUNE_TERM_HOPS, core_of(sim, rank)->free_ps);
  if (state->chain.time_ps > event->time_ps) {
    tune_events_push(&sim->events, (tune_event_t){state->chain.time_ps, is_queued, lane});
    return COLL_OK;
  }
  if (index == 0 && lane % (size_t)sim->plan->lanes == 0) {
    tune_touched_forget(sim->plan, rank, &sim->touched[rank]);
  }
  return take_step(sim, lane, steps, index);
}

/* ---- a run ----------------------------------------------------------------------------------*/

static void number_steps(link_sim_t *sim) {
  const plan_t *plan = sim->plan;
  sim->channels = 1;
  for (size_t lane = 0; lane < sim->lanes; lane++) {
    const plan_lane_t *steps =
        &plan->programs[lane / (size_t)plan->lanes].lanes[lane % (size_t)plan->lanes];
    sim->first[lane + 1] = sim->first[lane] + steps->count;
    for (size_t i = 0; i < steps->count; i++) {
      if (steps->steps[i].kind != PLAN_SEND) continue;
      size_t channels = (size_t)steps->steps[i].send.channel + 1;
      if (channels > sim->channels) sim->channels = channels;
    }
  }
  sim->count = sim->first[sim->lanes];
}

static coll_status_t make_fifos(fifo_t **fifos, size_t count) {
  COLL_TRY(base_alloc(count, sizeof **fifos, "a simulation", (void **)fifos));
  for (size_t i = 0; i < count; i++) {
    (*fifos)[i] = (fifo_t){.head = NONE, .tail = NONE, .receiver = NONE, .sender = NONE};
  }
  return COLL_OK;
}

/* To be closed also on failure. */
static coll_status_t sim_open(link_sim_t *sim) {
  const plan_t *plan = sim->plan;
  size_t ranks = (size_t)plan->shape.size;
  sim->lanes = ranks * (size_t)plan->lanes;
  COLL_TRY(tune_wires_open(&sim->wires, plan->shape.layout->fabric));
  COLL_TRY(base_alloc(sim->lanes + 1, sizeof(size_t), "a simulation", (void **)&sim->first));
  number_steps(sim);
  size_t numbers = sim->count * sim->passes + 1;
  COLL_TRY(base_alloc(sim->lanes, sizeof *sim->states, "a simulation", (void **)&sim->states));
  COLL_TRY(base_alloc(numbers, sizeof *sim->ends, "a simulation", (void **)&sim->ends));
  COLL_TRY(base_alloc(numbers, sizeof *sim->arrivals, "a simulation", (void **)&sim->arrivals));
  COLL_TRY(base_alloc(numbers, sizeof *sim->queue, "a simulation", (void **)&sim->queue));
  COLL_TRY(make_fifos(&sim->messages, ranks * ranks * sim->channels));
  COLL_TRY(make_fifos(&sim->signals, ranks * sim->lanes));
  COLL_TRY(base_alloc(ranks, sizeof *sim->cores, "a simulation", (void **)&sim->cores));
  for (size_t i = 0; i < ranks; i++) sim->cores[i].rank = -1;
  COLL_TRY(
      base_alloc(sim->lanes, sizeof *sim->events.heap, "a simulation", (void **)&sim->events.heap));
  COLL_TRY(base_alloc(ranks, sizeof *sim->touched, "a simulation", (void **)&sim->touched));
  for (int32_t rank = 0; rank < plan->shape.size; rank++) {
    COLL_TRY(tune_touched_create(plan, rank, sim->pricing->profile->can, &sim->touched[rank]));
  }
  return COLL_OK;
}

static void sim_close(link_sim_t *sim) {
  for (int32_t rank = 0; sim->touched != NULL && rank < sim->plan->shape.size; rank++) {
    tune_touched_free(&sim->touched[rank]);
  }
  free(sim->touched);
  free(sim->events.heap);
  free(sim->cores);
  free(sim->signals);
  free(sim->messages);
  free(sim->queue);
  free(sim->arrivals);
  free(sim->ends);
  free(sim->states);
  free(sim->first);
  tune_wires_close(&sim->wires);
}

static coll_status_t run(link_sim_t *sim) {
  for (size_t lane = 0; lane < sim->lanes; lane++) {
    if (lane_steps(sim, lane) > 0) schedule(sim, lane, 0);
  }
  while (sim->events.count > 0) {
    const tune_event_t event = tune_events_pop(&sim->events);
    COLL_TRY(handle(sim, &event));
  }
  for (size_t lane = 0; lane < sim->lanes; lane++) {
    if (sim->states[lane].done == lane_steps(sim, lane) * sim->passes) continue;
    return base_fail(COLL_ERROR_INTERNAL, "plan %s of %s deadlocks", sim->plan->algorithm,
                     base_collective_name(sim->plan->shape.collective));
  }
  return COLL_OK;
}

/* When the last rank ends its first `passes` passes. */
static chain_t last_end(const link_sim_t *sim, size_t passes) {
  chain_t last = {0};
  for (size_t lane = 0; lane < sim->lanes; lane++) {
    size_t steps = lane_steps(sim, lane);
    if (steps > 0) follow(&last, &sim->ends[number_of(sim, lane, passes * steps - 1)]);
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
static void report(const link_sim_t *sim, tune_link_times_t *times) {
  const chain_t last = last_end(sim, sim->passes);
  size_t more = sim->pricing->passes - sim->passes, period = period_of(sim->passes);
  uint64_t more_ps = 0;
  if (more > 0) {
    uint64_t period_ps = last.time_ps - last_end(sim, sim->passes - period).time_ps;
    more_ps = tune_share(period_ps, more, period);
  }
  for (int term = 0; term < TUNE_TERM_COUNT; term++) {
    times->term_ps[term] =
        last.term_ps[term] + tune_share(more_ps, last.term_ps[term], last.time_ps);
  }
  times->total_ps = tune_price_sum(times->term_ps);
  times->bottleneck = tune_wires_bottleneck(&sim->wires);
  tune_bottleneck_t *bottleneck = &times->bottleneck;
  bottleneck->bytes = tune_share(bottleneck->bytes, sim->pricing->passes, sim->passes);
  bottleneck->busy_ps = tune_share(bottleneck->busy_ps, sim->pricing->passes, sim->passes);
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
  link_sim_t sim = {.pricing = pricing, .plan = plan, .passes = simulated_passes(pricing, plan)};
  coll_status_t status = sim_open(&sim);
  if (status == COLL_OK) status = run(&sim);
  if (status == COLL_OK) report(&sim, times);
  sim_close(&sim);
  return status;
}
