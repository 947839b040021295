/*
 * Walks the sampled programs side by side, one round after another. It is no run of sim/: most of
 * the senders and receivers are not in the sample, so a round begins by definition and not when
 * what it waits for is there.
 */
#include "tune/link_rounds.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "tune/step_counts.h"
#include "tune/wires.h"

#define SAMPLE_MAX 16
#define SAMPLE_MIN 2

typedef struct sampled {
  plan_t *plan; /* with the program of this rank only */
  int32_t rank;
  tune_touched_t touched;
  size_t *next; /* [lanes]: step */
  /* of what it sends in the current round */
  uint64_t latency_ps; /* the longest of any path */
  int32_t *wires;      /* used by the paths */
  size_t wire_count, wire_capacity;
  tune_counts_t counts;
} sampled_t;

typedef struct rounds {
  const tune_pricing_t *pricing;
  tune_wires_t wires;
  sampled_t sample[SAMPLE_MAX];
  int count;
  uint64_t *busy_ps; /* [wires]: before the current round */
  uint64_t term_ps[TUNE_TERM_COUNT];
} rounds_t;

/* ---- the sample -----------------------------------------------------------------------------*/

static bool is_sampled(const plan_shape_t *shape, int32_t rank) {
  const topo_layout_t *layout = shape->layout;
  return layout->levels == 0 || layout->level[0].group_of[rank] == layout->level[0].group_of[0];
}

static coll_status_t add_rank(rounds_t *rounds, const plan_shape_t *shape, int32_t rank) {
  sampled_t *sampled = &rounds->sample[rounds->count++];
  sampled->rank = rank;
  COLL_TRY(algo_build(rounds->pricing->profile->algo, shape, rank, false, &sampled->plan));
  COLL_TRY(base_alloc((size_t)sampled->plan->lanes, sizeof *sampled->next, "a sample",
                      (void **)&sampled->next));
  return tune_touched_create(sampled->plan, rank, rounds->pricing->profile->can, &sampled->touched);
}

/* Every rank does this, so those that share a core have to share its time. */
static int sample_size(const tune_pricing_t *pricing) {
  uint64_t size = SAMPLE_MAX / pricing->ranks_per_core;
  return size > SAMPLE_MIN ? (int)size : SAMPLE_MIN;
}

/* To be closed also on failure. */
static coll_status_t rounds_open(rounds_t *rounds) {
  const tune_profile_t *profile = rounds->pricing->profile;
  int most = sample_size(rounds->pricing);
  const plan_shape_t shape = {.collective = profile->algo->collective,
                              .size = rounds->pricing->call->size,
                              .layout = profile->layout};
  COLL_TRY(tune_wires_open(&rounds->wires, profile->layout->fabric));
  size_t wires = (size_t)topo_fabric_wire_count(profile->layout->fabric);
  COLL_TRY(base_alloc(wires + 1, sizeof *rounds->busy_ps, "a sample", (void **)&rounds->busy_ps));
  for (int32_t rank = 0; rank < shape.size && rounds->count < most; rank++) {
    if (is_sampled(&shape, rank)) COLL_TRY(add_rank(rounds, &shape, rank));
  }
  return COLL_OK;
}

static void rounds_close(rounds_t *rounds) {
  for (int i = 0; i < rounds->count; i++) {
    tune_touched_free(&rounds->sample[i].touched);
    free(rounds->sample[i].next);
    free(rounds->sample[i].wires);
    plan_free(rounds->sample[i].plan);
  }
  free(rounds->busy_ps);
  tune_wires_close(&rounds->wires);
}

/* ---- one round ------------------------------------------------------------------------------*/

static coll_status_t send(rounds_t *rounds, sampled_t *sampled, int32_t to, int64_t chunks) {
  uint64_t bytes = (uint64_t)chunks * tune_part_bytes(rounds->pricing), latency_ps = 0;
  const int32_t *path;
  int32_t count;
  COLL_TRY(topo_fabric_path(rounds->wires.fabric, sampled->rank, to, &path, &count));
  COLL_TRY(base_grow((void **)&sampled->wires, &sampled->wire_capacity,
                     sampled->wire_count + (size_t)count, sizeof *sampled->wires, "a sample"));
  for (int32_t i = 0; i < count; i++) {
    tune_wires_add(&rounds->wires, path[i], bytes);
    sampled->wires[sampled->wire_count++] = path[i];
    latency_ps += rounds->wires.wires[path[i]].latency_ps;
  }
  if (latency_ps > sampled->latency_ps) sampled->latency_ps = latency_ps;
  return COLL_OK;
}

static bool sends(const plan_step_t *step) {
  return step->kind == PLAN_SEND || step->kind == PLAN_SIGNAL;
}

static bool receives(const plan_step_t *step) {
  return step->kind == PLAN_RECV || step->kind == PLAN_WAIT;
}

/* Takes the steps of one lane up to the first send after a receive, and adds their counts. */
static coll_status_t walk_lane(rounds_t *rounds, sampled_t *sampled, int index) {
  const plan_lane_t *lane = &sampled->plan->programs[sampled->rank].lanes[index];
  bool received = false;
  for (size_t *next = &sampled->next[index]; *next < lane->count; ++*next) {
    const plan_step_t *step = &lane->steps[*next];
    if (received && sends(step)) return COLL_OK;
    received = received || receives(step);
    const tune_counts_t more =
        tune_step_counts(sampled->plan, sampled->rank, lane, *next, &sampled->touched);
    tune_counts_add(&sampled->counts, &more);
    if (step->kind == PLAN_SEND) {
      COLL_TRY(send(rounds, sampled, step->send.peer, step->send.src.count));
    } else if (step->kind == PLAN_SIGNAL) {
      COLL_TRY(send(rounds, sampled, step->signal.peer, 0));
    }
  }
  return COLL_OK;
}

static void begin_round(sampled_t *sampled) {
  sampled->latency_ps = 0;
  sampled->wire_count = 0;
  sampled->counts = (tune_counts_t){0};
}

/* Adds the round of one rank: its steps, and its most loaded wire with what all ranks send. */
static void end_round(rounds_t *rounds, const sampled_t *sampled) {
  uint64_t term_ps[TUNE_TERM_COUNT], longest_ps = 0;
  tune_price(rounds->pricing, &sampled->counts, term_ps);
  for (size_t i = 0; i < sampled->wire_count; i++) {
    int32_t wire = sampled->wires[i];
    uint64_t busy_ps = rounds->wires.loads[wire].busy_ps - rounds->busy_ps[wire];
    if (busy_ps > longest_ps) longest_ps = busy_ps;
  }
  for (int term = 0; term < TUNE_TERM_COUNT; term++) rounds->term_ps[term] += term_ps[term];
  rounds->term_ps[TUNE_TERM_LINKS] += longest_ps + sampled->latency_ps;
}

/* *ended: no rank had any step left. */
static coll_status_t take_round(rounds_t *rounds, bool *ended) {
  *ended = true;
  for (int i = 0; i < rounds->count; i++) {
    sampled_t *sampled = &rounds->sample[i];
    begin_round(sampled);
    for (int lane = 0; lane < sampled->plan->lanes; lane++) {
      size_t steps = sampled->plan->programs[sampled->rank].lanes[lane].count;
      *ended = *ended && sampled->next[lane] == steps;
      COLL_TRY(walk_lane(rounds, sampled, lane));
    }
  }
  for (int i = 0; i < rounds->count; i++) end_round(rounds, &rounds->sample[i]);
  for (int32_t i = 0; i < topo_fabric_wire_count(rounds->wires.fabric); i++) {
    rounds->busy_ps[i] = rounds->wires.loads[i].busy_ps;
  }
  return COLL_OK;
}

static void report(const rounds_t *rounds, tune_link_times_t *times) {
  uint64_t passes = rounds->pricing->passes;
  *times = (tune_link_times_t){.bottleneck = tune_wires_bottleneck(&rounds->wires)};
  for (int term = 0; term < TUNE_TERM_COUNT; term++) {
    times->term_ps[term] = rounds->term_ps[term] * passes / (uint64_t)rounds->count;
  }
  times->total_ps = tune_price_sum(times->term_ps);
  times->bottleneck.bytes *= passes;
  times->bottleneck.busy_ps *= passes;
}

coll_status_t tune_link_rounds(const tune_pricing_t *pricing, tune_link_times_t *times) {
  rounds_t rounds = {.pricing = pricing};
  bool ended = false;
  coll_status_t status = rounds_open(&rounds);
  while (status == COLL_OK && !ended) status = take_round(&rounds, &ended);
  if (status == COLL_OK) report(&rounds, times);
  rounds_close(&rounds);
  return status;
}
