/*
 * What the tuner counts of an action (tune/step_counts.h) is what the engine binds: for every
 * algorithm, on one host and on several, in place and not, by every rank, with a transport whose
 * messages can be read in place, with one where they cannot, and with one where those of some peers
 * can. Every chunk is one element of one byte, so that bytes are chunks.
 */
#include <criterion/criterion.h>
#include <string.h>

#include "algo/algo.h"
#include "base/names.h"
#include "engine/bind.h"
#include "tune/step_counts.h"

#define SIZE_MAX_OF_RANKS 16

/* What an action, or all actions of a few steps, move. */
typedef struct tally {
  int64_t steps, messages, flags, moved, folded;
} tally_t;

typedef enum peeking { PEEKS_NONE, PEEKS_ALL, PEEKS_SOME, PEEKING_COUNT } peeking_t;

/* A case: one rank's program, bound. */
typedef struct subject {
  const plan_t *plan;
  int32_t rank;
  peeking_t peeking;
  engine_world_t world;
  engine_bound_t bound;
  tune_touched_t touched;
} subject_t;

static bool peeks(const void *context, int32_t peer) {
  const peeking_t *peeking = context;
  return *peeking == PEEKS_ALL || (*peeking == PEEKS_SOME && peer % 3 != 0);
}

/* A transport that only has ports. */
static transport_port_t *only_port(transport_t *t, int peer, int channel) {
  static transport_port_t port;
  (void)t, (void)peer, (void)channel;
  return &port;
}

/* ---- counts of the tuner --------------------------------------------------------------------*/

static tally_t counted(subject_t *s, const plan_lane_t *lane, size_t first, size_t end) {
  tune_counts_t counts = {0};
  for (size_t step = first; step < end; step++) {
    tune_step_counts_add(s->plan, s->rank, lane, step, &s->touched, &counts);
  }
  tally_t tally = {.steps = counts.steps,
                   .messages = counts.messages,
                   .flags = counts.flags,
                   .folded = counts.chunks[TUNE_FOLD]};
  for (int move = 0; move < TUNE_MOVE_COUNT; move++) {
    bool is_moved = move != TUNE_FOLD && move != TUNE_GET && move != TUNE_CROSS;
    if (is_moved) tally.moved += counts.chunks[move];
  }
  return tally;
}

/* ---- actions of the engine ------------------------------------------------------------------*/

static tally_t operation(const engine_action_t *action) {
  int sources = action->operand_count - action->dst_count;
  return (tally_t){.steps = 1,
                   .messages = action->kind == ENGINE_RECV_REDUCE ? action->sender_count : 0,
                   .moved = (int64_t)action->bytes * action->operand_count,
                   .folded = (int64_t)action->bytes * (sources - 1)};
}

static tally_t bound_action(const engine_action_t *action) {
  switch (action->kind) {
    case ENGINE_COPY:
    case ENGINE_PULL_COPY:
    case ENGINE_REDUCE:
    case ENGINE_PULL_REDUCE:
    case ENGINE_RECV_REDUCE: return operation(action);
    case ENGINE_SIGNAL:
    case ENGINE_WAIT: return (tally_t){.flags = 1};
    case ENGINE_AFTER:
    case ENGINE_STORE_FENCE: return (tally_t){0};
    default: return (tally_t){.messages = 1, .moved = 2 * (int64_t)action->bytes};
  }
}

static void add(tally_t *sum, const tally_t *more) {
  sum->steps += more->steps;
  sum->messages += more->messages;
  sum->flags += more->flags;
  sum->moved += more->moved;
  sum->folded += more->folded;
}

/* ---- comparison -----------------------------------------------------------------------------*/

static void compare(subject_t *s, int32_t number, size_t first, size_t end, const tally_t *bound) {
  const plan_lane_t *lane = &s->plan->programs[s->rank].lanes[number];
  const tally_t tune = counted(s, lane, first, end);
  cr_assert_eq(memcmp(&tune, bound, sizeof tune), 0,
               "%s by %s, %d ranks, rank %d%s, messages %d: steps %zu to %zu of lane %d are %ld "
               "operations, %ld messages, %ld flags, %ld chunks moved and %ld combined to the "
               "tuner, and %ld, %ld, %ld, %ld and %ld to the engine",
               base_collective_name(s->plan->shape.collective), s->plan->algorithm,
               s->plan->shape.size, s->rank, s->plan->programs[s->rank].in_place ? " in place" : "",
               (int)s->peeking, first, end, number, tune.steps, tune.messages, tune.flags,
               tune.moved, tune.folded, bound->steps, bound->messages, bound->flags, bound->moved,
               bound->folded);
}

/* Compares the actions of a lane, each with the steps up to where the next one begins. */
static void compare_lane(subject_t *s, int32_t number, size_t begin) {
  size_t end = s->bound.lane_ends[number];
  size_t steps = s->plan->programs[s->rank].lanes[number].count;
  for (size_t at = begin; at < end;) {
    size_t first = s->bound.actions[at].step;
    tally_t tally = {0};
    for (; at < end && s->bound.actions[at].step == first; at++) {
      const tally_t one = bound_action(&s->bound.actions[at]);
      add(&tally, &one);
    }
    compare(s, number, first, at < end ? s->bound.actions[at].step : steps, &tally);
  }
}

static void compare_rank(const plan_t *plan, int32_t rank, peeking_t peeking) {
  transport_t ends[SIZE_MAX_OF_RANKS];
  transport_t *routes[SIZE_MAX_OF_RANKS];
  subject_t s = {.plan = plan, .rank = rank, .peeking = peeking};
  plan_capabilities_t can = plan_host_capabilities;
  can.peeks = peeks;
  can.context = &s.peeking;
  transport_ops_t ops = transport_unsupported;
  ops.port = only_port;
  for (int peer = 0; peer < plan->shape.size; peer++) {
    ends[peer] =
        (transport_t){.ops = &ops, .size = plan->shape.size, .peeks = peeks(&peeking, peer)};
    routes[peer] = &ends[peer];
  }
  s.world = (engine_world_t){.rank = rank, .size = plan->shape.size, .routes = routes};
  const engine_call_t call = {.count = (size_t)plan->parts, .element_bytes = 1};
  const engine_pass_t pass = {.count = call.count, .grain = 1};
  cr_assert_eq(engine_bind(&s.bound, &s.world, plan, &plan->programs[rank], &call, &pass), COLL_OK,
               "%s", base_last_error());
  cr_assert_eq(tune_touched_create(plan, rank, &can, &s.touched), COLL_OK);
  for (int32_t lane = 0; lane < plan->lanes; lane++) {
    compare_lane(&s, lane, lane == 0 ? 0 : s.bound.lane_ends[lane - 1]);
  }
  tune_touched_free(&s.touched);
  engine_bound_free(&s.bound);
}

static int compare_plan(const algo_t *algo, const plan_shape_t *shape, bool in_place) {
  plan_t *plan;
  bool legal;
  cr_assert_eq(algo_is_legal(algo, shape, &legal), COLL_OK);
  if (!legal) return 0;
  cr_assert_eq(algo_build(algo, shape, ALGO_ALL_RANKS, in_place, &plan), COLL_OK, "%s",
               base_last_error());
  for (int32_t rank = 0; rank < shape->size; rank++) {
    for (int peeking = 0; peeking < PEEKING_COUNT; peeking++) {
      compare_rank(plan, rank, (peeking_t)peeking);
    }
  }
  plan_free(plan);
  return 1;
}

/* Two ranks per host; NULL: all on one. */
static topo_layout_t *layout_of(int size, bool on_hosts) {
  int32_t hosts[SIZE_MAX_OF_RANKS];
  topo_layout_t *layout = NULL;
  if (!on_hosts) return NULL;
  for (int rank = 0; rank < size; rank++) hosts[rank] = rank / 2;
  cr_assert_eq(topo_layout_create(size, &layout), COLL_OK);
  cr_assert_eq(topo_layout_set_domains(layout, hosts), COLL_OK);
  return layout;
}

static int compare_size(int size, bool on_hosts) {
  topo_layout_t *layout = layout_of(size, on_hosts);
  int plans = 0;
  for (int collective = 0; collective < COLL_COLLECTIVE_COUNT; collective++) {
    const plan_shape_t shape = {
        .collective = (coll_collective_t)collective, .size = size, .layout = layout};
    const algo_t *algo;
    for (int i = 0; (algo = algo_at(shape.collective, i)) != NULL; i++) {
      for (int in_place = 0; in_place < 2; in_place++) {
        plans += compare_plan(algo, &shape, in_place == 1);
      }
    }
  }
  topo_layout_free(layout);
  return plans;
}

Test(actions, are_counted_as_they_are_bound) {
  static const int sizes[] = {2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    cr_assert_gt(compare_size(sizes[i], false), 50);
    cr_assert_gt(compare_size(sizes[i], true), 20);
  }
}
