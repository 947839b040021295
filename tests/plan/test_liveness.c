/* What is said to stay as it is until the end of a call is stored to by no rank. */
#include <criterion/criterion.h>

#include "algo/algo.h"
#include "plan/emit.h"
#include "plan/liveness.h"

/* A chunk of INPUT, which may be one of OUTPUT too: an in-place rank has INPUT chunks that are
 * nowhere else behind those of OUTPUT. */
static int32_t place_of(const plan_t *plan, int rank, plan_buffer_t buffer, int32_t chunk) {
  enum { BEHIND = 1 << 20 };
  if (buffer == PLAN_OUTPUT) return chunk;
  int32_t alias = plan->programs[rank].in_place ? plan_alias(plan, rank, chunk) : -1;
  return alias >= 0 ? alias : BEHIND + chunk;
}

static bool stores_to(const plan_t *plan, const plan_step_t *step, int rank, int32_t place) {
  const plan_span_t *stored = step->kind == PLAN_COPY     ? &step->copy.dst
                              : step->kind == PLAN_RECV   ? &step->recv.dst
                              : step->kind == PLAN_REDUCE ? &step->reduce.dst
                                                          : NULL;
  if (stored == NULL || stored->rank != rank || stored->buffer == PLAN_SCRATCH) return false;
  for (int32_t i = 0; i < stored->count; i++) {
    if (place_of(plan, rank, stored->buffer, stored->first + i) == place) return true;
  }
  return false;
}

/* Whether any step of any rank may store there after the step. */
static bool is_stored_to(const plan_t *plan, int rank, int lane, size_t step, int32_t place) {
  for (int other = 0; other < plan->shape.size; other++) {
    for (int l = 0; l < plan->lanes; l++) {
      const plan_lane_t *steps = &plan->programs[other].lanes[l];
      for (size_t i = other == rank && l == lane ? step + 1 : 0; i < steps->count; i++) {
        if (stores_to(plan, &steps->steps[i], rank, place)) return true;
      }
    }
  }
  return false;
}

static void check_send(const plan_t *plan, int rank, int lane, size_t step, int *staying) {
  const plan_span_t *span = &plan->programs[rank].lanes[lane].steps[step].send.src;
  if (!plan_stays(plan, &plan->programs[rank], lane, step, span)) return;
  cr_assert_neq(span->buffer, PLAN_SCRATCH, "every pass uses it again");
  for (int32_t i = 0; i < span->count; i++) {
    int32_t place = place_of(plan, rank, span->buffer, span->first + i);
    cr_assert_not(is_stored_to(plan, rank, lane, step, place),
                  "%s of %d ranks: rank %d, lane %d, step %zu", plan->algorithm, plan->shape.size,
                  rank, lane, step);
  }
  ++*staying;
}

static void check(const algo_t *algo, int32_t size, bool in_place, int *staying) {
  const plan_shape_t shape = {
      .collective = algo->collective, .size = size, .root = algo_has_root(algo) ? size / 2 : 0};
  plan_t *plan;
  if (algo_build(algo, &shape, ALGO_ALL_RANKS, in_place, &plan) != COLL_OK) return;
  for (int rank = 0; rank < size; rank++) {
    for (int lane = 0; lane < plan->lanes; lane++) {
      const plan_lane_t *steps = &plan->programs[rank].lanes[lane];
      for (size_t i = 0; i < steps->count; i++) {
        if (steps->steps[i].kind == PLAN_SEND) check_send(plan, rank, lane, i, staying);
      }
    }
  }
  plan_free(plan);
}

Test(liveness, nothing_is_stored_to_what_stays) {
  int staying[COLL_COLLECTIVE_COUNT][2] = {{0}};
  for (int c = 0; c < COLL_COLLECTIVE_COUNT; c++) {
    const algo_t *algo;
    for (int i = 0; (algo = algo_at((coll_collective_t)c, i)) != NULL; i++) {
      for (int32_t size = 2; size <= 8; size++) {
        for (int place = 0; place < 2; place++) check(algo, size, place == 1, &staying[c][place]);
      }
    }
  }
  /* the last sends of these cannot be overwritten */
  cr_assert_gt(staying[COLL_ALLREDUCE][0], 100);
  cr_assert_gt(staying[COLL_ALLREDUCE][1], 100);
  cr_assert_gt(staying[COLL_ALLGATHER][0], 100);
  cr_assert_gt(staying[COLL_ALLGATHER][1], 100);
  cr_assert_gt(staying[COLL_ALLTOALL][0], 50);
}

/* Two lanes of rank 0: one sends a chunk, the other one receives a chunk. */
static bool stays_beside(int32_t received, plan_reach_t reach) {
  const plan_shape_t shape = {.collective = COLL_ALLTOALL, .size = 2};
  plan_t *plan;
  cr_assert_eq(plan_create(&shape, "beside", &plan), COLL_OK);
  cr_assert_eq(plan_set_lanes(plan, 2), COLL_OK);
  plan->parts = 1;
  plan->reach = reach;
  plan_emitter_t e = {.plan = plan, .program = &plan->programs[0], .rank = 0};
  plan_emit_send(&e, 0, 1, plan_output(&e, 0, 1));
  plan_emit_recv(&e, 1, 1, plan_output(&e, received, 1));
  cr_assert_eq(e.status, COLL_OK);
  const plan_span_t *span = &plan->programs[0].lanes[0].steps[0].send.src;
  bool stays = plan_stays(plan, &plan->programs[0], 0, 0, span);
  plan_free(plan);
  return stays;
}

Test(liveness, other_lanes_and_peers_may_store_at_any_time) {
  cr_assert(stays_beside(1, PLAN_REACH_READ));
  cr_assert_not(stays_beside(0, PLAN_REACH_READ));
  cr_assert_not(stays_beside(1, PLAN_REACH_USER));
}
