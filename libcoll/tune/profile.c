/*
 * Executes all ranks' programs symbolically, each step as early as possible, on approximate clocks:
 * one on which steps take time, one on which bytes do, one on which hops do. Every step records the
 * longest chain that leads to it; a receive or wait continues the later of two chains: its own
 * rank's or its peer's.
 */
#include "tune/profile.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "sim/sim.h"
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

/* The longest chain up to the end of a step. */
typedef struct chain {
  int64_t time;
  tune_counts_t counts;
} chain_t;

typedef struct walk {
  const plan_t *plan;
  tune_regime_t regime;
  sim_t sim;
  chain_t *ends;           /* [PASSES * sim.count] */
  chain_t *begun;          /* [PASSES * ranks]: the chain at the start of each pass */
  tune_touched_t *touched; /* [ranks] */
} walk_t;

enum { PASSES = 2 };

static void follow(const chain_t *other, chain_t *chain) {
  if (other->time > chain->time) *chain = *other;
}

/* Continues the peer's chain if it is the later one. */
static void follow_peer(const walk_t *walk, const chain_t *peer, chain_t *chain) {
  chain_t across = *peer;
  across.counts.hops++;
  across.time += weights[walk->regime].hop;
  follow(&across, chain);
}

static chain_t *begun_at(const walk_t *walk, int32_t rank, size_t pass) {
  return &walk->begun[pass * (size_t)walk->plan->shape.size + (size_t)rank];
}

/* The longest chain of a rank up to the end of a pass. */
static chain_t end_of_pass(const walk_t *walk, int32_t rank, size_t pass) {
  chain_t latest = *begun_at(walk, rank, pass);
  for (int32_t i = 0; i < walk->plan->lanes; i++) {
    size_t lane = sim_rank_lane(&walk->sim, rank, i);
    if (sim_lane_steps(&walk->sim, lane) == 0) continue;
    follow(&walk->ends[sim_last_number(&walk->sim, lane, pass)], &latest);
  }
  return latest;
}

/* Sets the rank's chain at the start of a pass. The same each time that it is called. */
static void begin_pass(walk_t *walk, int32_t rank, size_t pass) {
  chain_t latest = {0};
  if (pass > 0) latest = end_of_pass(walk, rank, pass - 1);
  for (int32_t peer = 0; walk->sim.exchanges && pass > 0 && peer < walk->plan->shape.size; peer++) {
    if (peer == rank) continue;
    const chain_t theirs = end_of_pass(walk, peer, pass - 1);
    follow_peer(walk, &theirs, &latest);
  }
  *begun_at(walk, rank, pass) = latest;
}

static void take_step(walk_t *walk, const sim_step_t *at) {
  tune_touched_t *touched = &walk->touched[at->rank];
  if (at->index == 0 && at->lane == 0) tune_touched_forget(walk->plan, at->rank, touched);
  chain_t *end = &walk->ends[at->number];
  *end = at->index == 0 ? *begun_at(walk, at->rank, at->pass) : end[-1];
  if (at->awaited != SIM_NONE) {
    const chain_t *awaited = &walk->ends[at->awaited];
    if (at->step->kind == PLAN_AFTER) {
      follow(awaited, end);
    } else {
      follow_peer(walk, awaited, end);
    }
  }
  const plan_lane_t *lane = &walk->plan->programs[at->rank].lanes[at->lane];
  tune_counts_t counts = tune_step_counts(walk->plan, at->rank, lane, at->index, touched);
  tune_counts_add(&end->counts, &counts);
  end->time += time_of(&counts, walk->regime);
}

/* Runs a lane as far as it can go. Returns whether any step ran. */
static bool run_lane(walk_t *walk, size_t lane) {
  for (bool moved = false;; moved = true) {
    sim_step_t at;
    sim_state_t state = sim_look(&walk->sim, lane, &at);
    if (state == SIM_ENDED || state == SIM_AWAITS_PASS) return moved;
    if (at.index == 0) begin_pass(walk, at.rank, at.pass);
    if (state == SIM_AWAITS_STEP) return moved;
    take_step(walk, &at);
    sim_advance(&walk->sim, lane);
  }
}

/* Runs all programs. Where ranks access each other's buffers, they exchange addresses first.
 * *longest: of the longest chain. */
static coll_status_t run(walk_t *walk, tune_regime_t regime, size_t passes,
                         tune_counts_t *longest) {
  walk->regime = regime;
  for (int32_t rank = 0; rank < walk->plan->shape.size; rank++) {
    tune_touched_forget(walk->plan, rank, &walk->touched[rank]);
  }
  sim_begin(&walk->sim, passes,
            plan_reach_exchanges(walk->plan->reach) && regime != TUNE_OVERSUBSCRIBED);
  for (bool moved = true; moved && !sim_has_ended(&walk->sim);) {
    moved = false;
    for (size_t lane = 0; lane < walk->sim.lanes; lane++) moved = run_lane(walk, lane) || moved;
  }
  COLL_TRY(sim_check_ended(&walk->sim));
  chain_t latest = {0};
  for (size_t i = 0; i < walk->sim.count * passes; i++) follow(&walk->ends[i], &latest);
  *longest = latest.counts;
  return COLL_OK;
}

/* To be closed also on failure. */
static coll_status_t open_walk(walk_t *walk, const plan_capabilities_t *can) {
  static const char what[] = "a profile";
  const plan_t *plan = walk->plan;
  size_t ranks = (size_t)plan->shape.size;
  COLL_TRY(sim_open(plan, SIM_UNBOUNDED, &walk->sim));
  COLL_TRY(base_alloc(PASSES * walk->sim.count + 1, sizeof(chain_t), what, (void **)&walk->ends));
  COLL_TRY(base_alloc(PASSES * ranks, sizeof(chain_t), what, (void **)&walk->begun));
  COLL_TRY(base_alloc(ranks, sizeof(tune_touched_t), what, (void **)&walk->touched));
  for (int32_t rank = 0; rank < plan->shape.size; rank++) {
    COLL_TRY(tune_touched_create(plan, rank, can, &walk->touched[rank]));
  }
  return COLL_OK;
}

static void close_walk(walk_t *walk) {
  for (int32_t rank = 0; walk->touched != NULL && rank < walk->plan->shape.size; rank++) {
    tune_touched_free(&walk->touched[rank]);
  }
  free(walk->touched);
  free(walk->begun);
  free(walk->ends);
  sim_close(&walk->sim);
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

/* Counts one rank's program. touched: as created. hops: receives and waits that do not directly
 * follow another one. */
static tune_counts_t count_program(const plan_t *plan, int32_t rank, tune_touched_t *touched) {
  tune_counts_t counts = {0};
  for (int32_t i = 0; i < plan->lanes; i++) {
    const plan_lane_t *lane = &plan->programs[rank].lanes[i];
    bool waited = false;
    for (size_t at = 0; at < lane->count; at++) {
      bool waits = lane->steps[at].kind == PLAN_RECV || lane->steps[at].kind == PLAN_WAIT;
      tune_step_counts_add(plan, rank, lane, at, touched, &counts);
      counts.hops += waits && !waited;
      waited = waits;
    }
  }
  return counts;
}

static coll_status_t profile_walk(walk_t *walk, tune_profile_t *profile) {
  COLL_TRY(open_walk(walk, profile->can));
  for (int32_t rank = 0; rank < walk->plan->shape.size; rank++) {
    const tune_counts_t counts = count_program(walk->plan, rank, &walk->touched[rank]);
    tune_counts_add(&profile->all, &counts);
    note_reach(walk->plan, rank, profile);
  }
  for (int regime = 0; regime < TUNE_REGIME_COUNT; regime++) {
    COLL_TRY(run(walk, (tune_regime_t)regime, 1, &profile->once[regime]));
    COLL_TRY(run(walk, (tune_regime_t)regime, PASSES, &profile->twice[regime]));
  }
  return COLL_OK;
}

/* plan: with the programs of all ranks. */
static coll_status_t profile_whole(const plan_t *plan, tune_profile_t *profile) {
  walk_t walk = {.plan = plan};
  coll_status_t status = profile_walk(&walk, profile);
  close_walk(&walk);
  return status;
}

/* plan: with this rank's program. */
static coll_status_t add_sample(const plan_t *plan, int rank, tune_profile_t *profile) {
  tune_touched_t touched = {{NULL}};
  tune_counts_t counts = {0};
  coll_status_t status = tune_touched_create(plan, rank, profile->can, &touched);
  if (status == COLL_OK) counts = count_program(plan, rank, &touched);
  tune_touched_free(&touched);
  COLL_TRY(status);
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
