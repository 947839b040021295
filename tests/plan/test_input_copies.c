/* Plans for calls in place become right for calls out of place. */
#include <criterion/criterion.h>

#include "algo/algo.h"
#include "plan/input_copies.h"
#include "verify/verify.h"

static void check(const algo_t *algo, int32_t size, int *changed_count) {
  const plan_shape_t shape = {
      .collective = algo->collective, .size = size, .root = algo_has_root(algo) ? size / 2 : 0};
  verify_report_t report;
  plan_t *plan;
  bool changed;
  cr_assert_eq(algo_build(algo, &shape, ALGO_ALL_RANKS, true, &plan), COLL_OK);
  cr_assert_eq(plan_add_input_copies(plan, &changed), COLL_OK);
  if (changed && plan->reach <= PLAN_REACH_SCRATCH) {
    for (int rank = 0; rank < size; rank++) {
      cr_assert(!plan->programs[rank].in_place);
      cr_assert_eq(plan_check_program(plan, rank), COLL_OK, "%s", base_last_error());
    }
    cr_assert_eq(verify_plan(plan, &report), COLL_OK);
    cr_assert_eq(report.verdict, VERIFY_PROVED, "%s of %d ranks: %s", algo->name, size,
                 report.text);
    ++*changed_count;
  }
  plan_free(plan);
}

/* All plans that read no peer's INPUT, of every collective. */
Test(input_copies, make_plans_right_out_of_place) {
  int changed_count = 0;
  for (int c = 0; c < COLL_COLLECTIVE_COUNT; c++) {
    const algo_t *algo;
    if (c == COLL_ALLTOALLV || c == COLL_SENDRECV || c == COLL_BARRIER) continue;
    for (int i = 0; (algo = algo_at((coll_collective_t)c, i)) != NULL; i++) {
      for (int32_t size = 2; size <= 9; size++) check(algo, size, &changed_count);
    }
  }
  cr_assert_gt(changed_count, 300);
}
