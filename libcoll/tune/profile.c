/*
 * Executes all ranks' programs symbolically, each step as early as possible, on approximate clocks:
 * one on which steps take time, one on which bytes do, one on which hops do. Every step records the
 * longest chain that leads to it; a receive or wait continues the later of two chains: its own
 * rank's or its peer's.
 */
#include "tune/profile.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/names.h"
#include "tune/step_counts.h"

/* The clock rates: approximate proportions of current machines. */
static const struct {
  int64_t hop, message, flag, step, chunk[TUNE_MOVE_COUNT];
} weights[TUNE_REGIME_COUNT] = {
    [TUNE_SMALL] = {.hop = 60, .message = 40, .flag = 15, .step = 10},
    [TUNE_LARGE] = {.hop = 6,
                    .message = 4,
                    .flag = 1,
                    .step = 1,
                    .chunk = {[TUNE_LOAD] = 200,
                              [TUNE_STORE] = 200,
                              [TUNE_LOAD_FAR] = 300,
                              [TUNE_STORE_FAR] = 300,
                              [TUNE_ALONG] = 300,
                              [TUNE_PUSH] = 400,
                              [TUNE_PULL] = 400,
                              [TUNE_NEAR] = 100,
                              [TUNE_FOLD] = 100}},
    [TUNE_OVERSUBSCRIBED] = {.hop = 1000, .message = 1, .flag = 1, .step = 1},
};

static int64_t time_of(const tune_counts_t *counts, tune_regime_t regime) {
  int64_t time = counts->hops * weights[regime].hop + counts->messages * weights[regime].message +
                 counts->flags * weights[regime].flag + counts->steps * weights[regime].step;
  for (int move = 0; move < TUNE_MOVE_COUNT; move++) {
    time += counts->chunks[move] * weights[regime].chunk[move];
  }
  return time;
}

/* ---- all ranks side by side -----------------------------------------------------------------*/

#define NONE SIZE_MAX

/* The longest chain up to the end of a step. */
typedef struct chain {
  int64_t time;
  tune_counts_t counts;
} chain_t;

typedef struct walk {
  const plan_t *plan;
  const plan_capabilities_t *can;
  tune_regime_t regime;
  int passes;
  size_t lanes, count;     /* lanes of all ranks; steps of all lanes in one pass */
  size_t *first;           /* [lanes + 1]: number of each lane's first step */
  size_t *next;            /* [lanes]: steps done, over all passes */
  chain_t *ends;           /* [passes * count] */
  chain_t *begun;          /* [ranks]: the chain at the start of the current pass */
  tune_touched_t *touched; /* [ranks] */
  size_t *queue;           /* [passes * count]: the next message or signal of the same channel */
  size_t *heads, *tails;   /* per channel: the oldest message not yet received; the latest */
} walk_t;

static size_t lane_steps(const walk_t *walk, size_t lane) {
  return walk->first[lane + 1] - walk->first[lane];
}

/* The index of a step in ends[] and queue[]. */
static size_t number_of(const walk_t *walk, size_t lane, size_t done) {
  size_t steps = lane_steps(walk, lane);
  return done / steps * walk->count + walk->first[lane] + done % steps;
}

/* number: a message's channel, which in builders' plans is below the number of lanes, or a signal's
 * lane. */
static size_t channel_of(const walk_t *walk, int32_t source, int32_t destination, size_t number,
                         bool is_signal) {
  size_t ranks = (size_t)walk->plan->shape.size, lanes = (size_t)walk->plan->lanes;
  size_t pair = (size_t)source * ranks + (size_t)destination;
  return (pair * lanes + number % lanes) * 2 + (size_t)is_signal;
}

static void push(walk_t *walk, size_t channel, size_t number) {
  walk->queue[number] = NONE;
  if (walk->heads[channel] == NONE) {
    walk->heads[channel] = number;
  } else {
    walk->queue[walk->tails[channel]] = number;
  }
  walk->tails[channel] = number;
}

/* Continues the peer's chain if it is the later one. */
static void follow(const walk_t *walk, const chain_t *peer, chain_t *chain) {
  chain_t across = *peer;
  across.counts.hops++;
  across.time += weights[walk->regime].hop;
  if (across.time > chain->time) *chain = across;
}

static bool take(walk_t *walk, size_t channel, chain_t *chain) {
  size_t number = walk->heads[channel];
  if (number == NONE) return false;
  walk->heads[channel] = walk->queue[number];
  follow(walk, &walk->ends[number], chain);
  return true;
}

/* Whether the step is not blocked. Then *chain is the longest chain that leads to it. */
static bool take_input(walk_t *walk, size_t lane, const plan_step_t *step, size_t pass,
                       chain_t *chain) {
  int32_t rank = (int32_t)(lane / (size_t)walk->plan->lanes);
  switch (step->kind) {
    case PLAN_RECV:
      return take(walk, channel_of(walk, step->recv.peer, rank, (size_t)step->recv.channel, false),
                  chain);
    case PLAN_WAIT: return take(walk, channel_of(walk, step->wait.peer, rank, lane, true), chain);
    case PLAN_AFTER: {
      size_t other = (size_t)(rank * walk->plan->lanes + step->after.lane);
      size_t wanted = pass * lane_steps(walk, other) + (size_t)step->after.step;
      if (walk->next[other] <= wanted) return false;
      const chain_t *end = &walk->ends[number_of(walk, other, wanted)];
      if (end->time > chain->time) *chain = *end;
      return true;
    }
    default: return true;
  }
}

/* Whether all lanes of the rank have ended the earlier passes. Then *latest is the longest chain up
 * to there. */
static bool has_ended(const walk_t *walk, int32_t rank, size_t pass, chain_t *latest) {
  *latest = walk->begun[rank];
  for (int32_t i = 0; i < walk->plan->lanes; i++) {
    size_t lane = (size_t)(rank * walk->plan->lanes + i), steps = lane_steps(walk, lane);
    if (walk->next[lane] < pass * steps) return false;
    if (steps == 0 || pass == 0) continue;
    const chain_t *end = &walk->ends[number_of(walk, lane, pass * steps - 1)];
    if (end->time > latest->time) *latest = *end;
  }
  return true;
}

/* A pass begins when the rank has ended the previous one; where ranks access each other's buffers,
 * when all ranks have, as they exchange addresses first. */
static bool pass_may_begin(walk_t *walk, int32_t rank, size_t pass) {
  chain_t latest;
  if (!has_ended(walk, rank, pass, &latest)) return false;
  bool exchanges_addresses =
      plan_reach_exchanges(walk->plan->reach) && walk->regime != TUNE_OVERSUBSCRIBED && pass > 0;
  for (int32_t peer = 0; exchanges_addresses && peer < walk->plan->shape.size; peer++) {
    chain_t theirs;
    if (peer == rank) continue;
    if (!has_ended(walk, peer, pass, &theirs)) return false;
    follow(walk, &theirs, &latest);
  }
  walk->begun[rank] = latest;
  return true;
}

static bool try_step(walk_t *walk, size_t lane) {
  const plan_t *plan = walk->plan;
  int32_t rank = (int32_t)(lane / (size_t)plan->lanes);
  const plan_lane_t *steps = &plan->programs[rank].lanes[lane % (size_t)plan->lanes];
  size_t done = walk->next[lane], pass = done / steps->count, index = done % steps->count;
  const plan_step_t *step = &steps->steps[index];
  if (index == 0 && !pass_may_begin(walk, rank, pass)) return false;
  chain_t chain = index == 0 ? walk->begun[rank] : walk->ends[number_of(walk, lane, done - 1)];
  if (!take_input(walk, lane, step, pass, &chain)) return false;
  if (index == 0 && lane % (size_t)plan->lanes == 0) {
    tune_touched_forget(plan, rank, &walk->touched[rank]);
  }
  tune_counts_t counts = tune_step_counts(plan, rank, steps, index, &walk->touched[rank]);
  tune_counts_add(&chain.counts, &counts);
  chain.time += time_of(&counts, walk->regime);
  size_t number = number_of(walk, lane, done);
  walk->ends[number] = chain;
  if (step->kind == PLAN_SEND) {
    push(walk, channel_of(walk, rank, step->send.peer, (size_t)step->send.channel, false), number);
  } else if (step->kind == PLAN_SIGNAL) {
    push(walk, channel_of(walk, rank, step->signal.peer, lane, true), number);
  }
  walk->next[lane]++;
  return true;
}

/* Runs all programs. *longest: the longest chain. */
static coll_status_t run(walk_t *walk, tune_counts_t *longest) {
  bool moved = true, ended = false;
  chain_t latest = {0};
  while (moved && !ended) {
    moved = false;
    ended = true;
    for (size_t lane = 0; lane < walk->lanes; lane++) {
      size_t max = lane_steps(walk, lane) * (size_t)walk->passes;
      while (walk->next[lane] < max && try_step(walk, lane)) moved = true;
      if (walk->next[lane] < max) ended = false;
    }
  }
  if (!ended) {
    return base_fail(COLL_ERROR_INTERNAL, "plan %s of %s deadlocks", walk->plan->algorithm,
                     base_collective_name(walk->plan->shape.collective));
  }
  for (size_t i = 0; i < walk->count * (size_t)walk->passes; i++) {
    if (walk->ends[i].time > latest.time) latest = walk->ends[i];
  }
  *longest = latest.counts;
  return COLL_OK;
}

static coll_status_t open_walk(walk_t *walk) {
  const plan_t *plan = walk->plan;
  size_t ranks = (size_t)plan->shape.size;
  walk->lanes = ranks * (size_t)plan->lanes;
  COLL_TRY(base_alloc(walk->lanes + 1, sizeof(size_t), "a profile", (void **)&walk->first));
  for (size_t lane = 0; lane < walk->lanes; lane++) {
    const plan_program_t *program = &plan->programs[lane / (size_t)plan->lanes];
    walk->first[lane + 1] = walk->first[lane] + program->lanes[lane % (size_t)plan->lanes].count;
  }
  walk->count = walk->first[walk->lanes];
  size_t numbers = walk->count * (size_t)walk->passes + 1;
  size_t channels =
      channel_of(walk, plan->shape.size - 1, plan->shape.size - 1, (size_t)plan->lanes - 1, true) +
      1;
  COLL_TRY(base_alloc(walk->lanes, sizeof(size_t), "a profile", (void **)&walk->next));
  COLL_TRY(base_alloc(numbers, sizeof(chain_t), "a profile", (void **)&walk->ends));
  COLL_TRY(base_alloc(ranks, sizeof(chain_t), "a profile", (void **)&walk->begun));
  COLL_TRY(base_alloc(numbers, sizeof(size_t), "a profile", (void **)&walk->queue));
  COLL_TRY(base_alloc(channels, sizeof(size_t), "a profile", (void **)&walk->heads));
  COLL_TRY(base_alloc(channels, sizeof(size_t), "a profile", (void **)&walk->tails));
  for (size_t i = 0; i < channels; i++) walk->heads[i] = NONE;
  COLL_TRY(base_alloc(ranks, sizeof(tune_touched_t), "a profile", (void **)&walk->touched));
  for (int32_t rank = 0; rank < plan->shape.size; rank++) {
    COLL_TRY(tune_touched_create(plan, rank, walk->can, &walk->touched[rank]));
  }
  return COLL_OK;
}

static void close_walk(walk_t *walk) {
  for (int32_t rank = 0; walk->touched != NULL && rank < walk->plan->shape.size; rank++) {
    tune_touched_free(&walk->touched[rank]);
  }
  free(walk->touched);
  free(walk->tails);
  free(walk->heads);
  free(walk->queue);
  free(walk->begun);
  free(walk->ends);
  free(walk->next);
  free(walk->first);
}

static coll_status_t walk_all(const plan_t *plan, const plan_capabilities_t *can,
                              tune_regime_t regime, int passes, tune_counts_t *longest) {
  walk_t walk = {.plan = plan, .can = can, .regime = regime, .passes = passes};
  coll_status_t status = open_walk(&walk);
  if (status == COLL_OK) status = run(&walk, longest);
  close_walk(&walk);
  return status;
}

/* ---- what is accessed of peers ---------------------------------------------------------------*/

static void note_span(const plan_span_t *span, int32_t rank, tune_profile_t *profile) {
  if (span->rank != rank && span->buffer != PLAN_SCRATCH) profile->reaches[span->buffer] = true;
}

static void note_reach(const plan_t *plan, int32_t rank, tune_profile_t *profile) {
  const plan_program_t *program = &plan->programs[rank];
  for (size_t i = 0; i < program->source_count; i++) {
    note_span(&program->sources[i], rank, profile);
  }
  for (int32_t i = 0; i < plan->lanes; i++) {
    for (size_t at = 0; at < program->lanes[i].count; at++) {
      const plan_step_t *step = &program->lanes[i].steps[at];
      if (step->kind == PLAN_REDUCE) note_span(&step->reduce.dst, rank, profile);
      if (step->kind != PLAN_COPY) continue;
      note_span(&step->copy.src, rank, profile);
      note_span(&step->copy.dst, rank, profile);
    }
  }
}

/* ---- profiles -------------------------------------------------------------------------------*/

/* Counts one rank's program. hops: receives and waits that do not directly follow another one. */
static coll_status_t count_program(const plan_t *plan, int32_t rank, const plan_capabilities_t *can,
                                   tune_counts_t *sum) {
  tune_counts_t counts = {0};
  tune_touched_t touched = {{NULL}};
  coll_status_t status = tune_touched_create(plan, rank, can, &touched);
  for (int32_t i = 0; i < plan->lanes && status == COLL_OK; i++) {
    const plan_lane_t *lane = &plan->programs[rank].lanes[i];
    bool waited = false;
    for (size_t at = 0; at < lane->count; at++) {
      bool waits = lane->steps[at].kind == PLAN_RECV || lane->steps[at].kind == PLAN_WAIT;
      tune_step_counts_add(plan, rank, lane, at, &touched, &counts);
      counts.hops += waits && !waited;
      waited = waits;
    }
  }
  tune_touched_free(&touched);
  *sum = counts;
  return status;
}

/* plan: with the programs of all ranks. */
static coll_status_t profile_whole(const plan_t *plan, tune_profile_t *profile) {
  for (int regime = 0; regime < TUNE_REGIME_COUNT; regime++) {
    COLL_TRY(walk_all(plan, profile->can, (tune_regime_t)regime, 1, &profile->once[regime]));
    COLL_TRY(walk_all(plan, profile->can, (tune_regime_t)regime, 2, &profile->twice[regime]));
  }
  for (int32_t rank = 0; rank < plan->shape.size; rank++) {
    tune_counts_t counts;
    COLL_TRY(count_program(plan, rank, profile->can, &counts));
    tune_counts_add(&profile->all, &counts);
    note_reach(plan, rank, profile);
  }
  return COLL_OK;
}

/* plan: with this rank's program. */
static coll_status_t add_sample(const plan_t *plan, int rank, tune_profile_t *profile) {
  tune_counts_t counts;
  COLL_TRY(count_program(plan, rank, profile->can, &counts));
  tune_counts_add(&profile->all, &counts);
  note_reach(plan, rank, profile);
  for (int regime = 0; regime < TUNE_REGIME_COUNT; regime++) {
    tune_counts_t *max = &profile->once[regime];
    if (time_of(&counts, (tune_regime_t)regime) > time_of(max, (tune_regime_t)regime)) {
      *max = counts;
    }
  }
  return COLL_OK;
}

/* plan: with the program of rank 0. */
static coll_status_t profile_sample(const plan_t *plan, tune_profile_t *profile) {
  const int size = plan->shape.size;
  const int others[] = {1, 2, size / 2, size - 1};
  enum { OTHERS = sizeof others / sizeof others[0] };
  COLL_TRY(add_sample(plan, 0, profile));
  for (int i = 0; i < OTHERS; i++) {
    plan_t *other;
    COLL_TRY(algo_build(profile->algo, &plan->shape, others[i], false, &other));
    coll_status_t status = add_sample(other, others[i], profile);
    plan_free(other);
    COLL_TRY(status);
  }
  for (int regime = 0; regime < TUNE_REGIME_COUNT; regime++) {
    profile->twice[regime] = tune_counts_times(&profile->once[regime], 2, 1);
  }
  profile->all = tune_counts_times(&profile->all, size, OTHERS + 1);
  return COLL_OK;
}

static coll_status_t verdict_of(const algo_t *algo, const plan_shape_t *shape,
                                tune_verdict_t *verdict) {
  bool legal;
  *verdict = TUNE_UNSUITED;
  if (!algo_suits(algo, shape)) return COLL_OK;
  COLL_TRY(algo_is_legal(algo, shape, &legal));
  *verdict = legal ? TUNE_POSSIBLE : TUNE_NOT_MAPPED;
  return COLL_OK;
}

coll_status_t tune_profile_make(const algo_t *algo, int size, const topo_layout_t *layout,
                                const plan_capabilities_t *can, tune_profile_t *profile) {
  plan_shape_t shape = {.collective = algo->collective, .size = size, .layout = layout};
  tune_profile_t made = {.algo = algo, .layout = layout, .can = can};
  plan_t *plan;
  COLL_TRY(verdict_of(algo, &shape, &made.verdict));
  if (made.verdict != TUNE_POSSIBLE) {
    *profile = made;
    return COLL_OK;
  }
  bool is_whole = size <= TUNE_WHOLE;
  COLL_TRY(algo_build(algo, &shape, is_whole ? ALGO_ALL_RANKS : 0, false, &plan));
  made.load = plan_load_of(plan);
  made.reach = plan->reach;
  made.order = plan->order;
  coll_status_t status = is_whole ? profile_whole(plan, &made) : profile_sample(plan, &made);
  plan_free(plan);
  if (status == COLL_OK) *profile = made;
  return status;
}
