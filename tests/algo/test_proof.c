/* The verifier proves the plans of every builder: one test per collective, so that they run in
 * parallel. */
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <stdio.h>
#include <string.h>

#include "base/names.h"
#include "harness/sample.h"
#include "plans.h"
#include "verify/verify.h"

static size_t plans_proved, steps_proved;

/* Under a sanitizer, small plans are enough: it looks for errors in builders and verifier. */
enum {
  IS_PLAIN = HARNESS_BUILD == HARNESS_PLAIN,
  EVERY_SIZE_TO = IS_PLAIN ? 64 : 24,
  SIZES_BEYOND = IS_PLAIN ? 5 : 1
};

enum { STEPS_MAX = 1500000 }; /* of a plan, all ranks: limits the test to seconds */

static void prove(const algo_t *algo, int size, int root, test_mode_t mode) {
  static unsigned number;
  if (!harness_takes(HARNESS_VALUES, number++)) return;
  plan_t *plan = test_plan_build(algo, size, root, mode);
  verify_report_t report;
  cr_assert_eq(verify_plan(plan, &report), COLL_OK, "%s", base_last_error());
  cr_assert_eq(report.verdict, VERIFY_PROVED, "%s/%s, %d ranks, root %d, mode %d: %s: %s",
               base_collective_name(algo->collective), algo->name, size, root, (int)mode,
               verify_verdict_name(report.verdict), report.text);
  cr_assert_leq(report.steps, STEPS_MAX);
  plans_proved++;
  steps_proved += report.steps;
  plan_free(plan);
}

static void prove_size(const algo_t *algo, int size) {
  for (int root = -1; (root = test_next_lead(algo, size, 16, root)) >= 0;) {
    for (int mode = 0; mode < TEST_MODE_COUNT; mode++) prove(algo, size, root, (test_mode_t)mode);
  }
}

/* A tier runs the first three. */
static const int sizes_beyond[] = {96, 100, 255, 128, 256};

static int sizes_beyond_count(void) {
  return SIZES_BEYOND > 3 && !harness_full() ? 3 : SIZES_BEYOND;
}

static void prove_every_size(const algo_t *algo) {
  for (int size = 1; size <= EVERY_SIZE_TO; size++) prove_size(algo, size);
}

static void prove_sizes_beyond(const algo_t *algo) {
  for (int i = 0; i < sizes_beyond_count(); i++) prove_size(algo, sizes_beyond[i]);
}

static void print_counts(coll_collective_t collective, int least, int most) {
  printf("proved: %-14s %2d..%-3d ranks %6zu plans, %9zu steps\n", base_collective_name(collective),
         least, most, plans_proved, steps_proved);
  fflush(stdout);
}

static struct criterion_test_params every_collective(void) {
  static int collectives[COLL_COLLECTIVE_COUNT];
  for (int i = 0; i < COLL_COLLECTIVE_COUNT; i++) collectives[i] = i;
  return cr_make_param_array(int, collectives, COLL_COLLECTIVE_COUNT);
}

ParameterizedTestParameters(proof, every_size) {
  return every_collective();
}

ParameterizedTest(int *collective, proof, every_size) {
  test_each_algo((coll_collective_t)*collective, prove_every_size);
  print_counts((coll_collective_t)*collective, 1, EVERY_SIZE_TO);
}

ParameterizedTestParameters(proof, sizes_beyond) {
  return every_collective();
}

ParameterizedTest(int *collective, proof, sizes_beyond) {
  test_each_algo((coll_collective_t)*collective, prove_sizes_beyond);
  print_counts((coll_collective_t)*collective, sizes_beyond[0],
               sizes_beyond[sizes_beyond_count() - 1]);
}

/* ---- no redundant steps ----------------------------------------------------------------------
 * Every message and every signal is necessary: with any one of them removed at both ends, the
 * verifier rejects the plan. This also shows that the proofs above can fail. */

static void remove_step(plan_lane_t *lane, size_t index) {
  memmove(&lane->steps[index], &lane->steps[index + 1],
          (--lane->count - index) * sizeof lane->steps[0]);
}

/* The index of the step of `rank` that matches the peer's n-th (from 0) step of that kind with
 * it. */
static size_t matching(const plan_t *plan, int rank, plan_step_kind_t kind, int peer, int n,
                       int number) {
  const plan_lane_t *lane = &plan->programs[rank].lanes[number];
  for (size_t i = 0; i < lane->count; i++) {
    const plan_step_t *step = &lane->steps[i];
    int32_t with = step->kind == PLAN_RECV ? step->recv.peer : step->wait.peer;
    if (step->kind == kind && with == peer && n-- == 0) return i;
  }
  cr_assert_fail("rank %d has no match for a step of rank %d", rank, peer);
  return 0;
}

/* Removes the index-th step of the rank's program and its match; false if it is neither send nor
 * signal. */
static bool remove_pair(plan_t *plan, int rank, int number, size_t index) {
  plan_lane_t *lane = &plan->programs[rank].lanes[number];
  plan_step_kind_t kind = lane->steps[index].kind;
  if (kind != PLAN_SEND && kind != PLAN_SIGNAL) return false;
  int peer = kind == PLAN_SEND ? lane->steps[index].send.peer : lane->steps[index].signal.peer;
  int earlier = 0;
  for (size_t i = 0; i < index; i++) {
    const plan_step_t *step = &lane->steps[i];
    int with = step->kind == PLAN_SEND ? step->send.peer : step->signal.peer;
    if (step->kind == kind && with == peer) earlier++;
  }
  remove_step(
      &plan->programs[peer].lanes[number],
      matching(plan, peer, kind == PLAN_SEND ? PLAN_RECV : PLAN_WAIT, rank, earlier, number));
  remove_step(lane, index);
  return true;
}

static void check_is_needed(const algo_t *algo, int size, int rank, int lane, size_t index) {
  static unsigned number;
  if (!harness_takes(HARNESS_VALUES, number++)) return;
  plan_t *plan = test_plan_build(algo, size, 0, TEST_IN_PLACE);
  verify_report_t report;
  if (remove_pair(plan, rank, lane, index)) {
    cr_assert_eq(verify_plan(plan, &report), COLL_OK, "%s", base_last_error());
    cr_assert_neq(report.verdict, VERIFY_PROVED, "%s/%s of %d: step %zu of rank %d is not needed",
                  base_collective_name(algo->collective), algo->name, size, index, rank);
  }
  plan_free(plan);
}

static void every_pair_is_needed(const algo_t *algo) {
  for (int size = 2; size <= 8; size++) {
    plan_t *plan = test_plan_build(algo, size, 0, TEST_IN_PLACE);
    for (int rank = 0; rank < size; rank++) {
      for (int lane = 0; lane < plan->lanes; lane++) {
        size_t steps = plan->programs[rank].lanes[lane].count;
        for (size_t index = 0; index < steps; index++) {
          check_is_needed(algo, size, rank, lane, index);
        }
      }
    }
    plan_free(plan);
  }
}

ParameterizedTestParameters(proof, every_message_and_signal_is_needed) {
  return every_collective();
}

ParameterizedTest(int *collective, proof, every_message_and_signal_is_needed) {
  test_each_algo((coll_collective_t)*collective, every_pair_is_needed);
}

/* ---- order -----------------------------------------------------------------------------------
 * A plan that states an order is rejected if the operands of any reduction are exchanged, or if it
 * states an order that is stricter than what it computes. */

static verify_verdict_t verdict_of(const plan_t *plan) {
  verify_report_t report;
  cr_assert_eq(verify_plan(plan, &report), COLL_OK, "%s", base_last_error());
  return report.verdict;
}

/* Exchanges the first two sources of a step; false if it has fewer. */
static bool exchange_sources(plan_t *plan, int rank, size_t index) {
  plan_program_t *program = &plan->programs[rank];
  const plan_step_t *step = &program->lanes[0].steps[index];
  if (step->kind != PLAN_REDUCE || step->reduce.source_count < 2) return false;
  plan_span_t *sources = &program->sources[step->reduce.first_source], first = sources[0];
  sources[0] = sources[1];
  sources[1] = first;
  return true;
}

static void stated_order_is_kept_by(const algo_t *algo) {
  for (int size = 2; size <= 9; size++) {
    if (algo_order(algo, size) == PLAN_ORDER_FIXED) continue;
    plan_t *plan = test_plan_build(algo, size, size / 2 % size, TEST_APART);
    for (int rank = 0; rank < size; rank++) {
      size_t steps = plan->programs[rank].lanes[0].count;
      for (size_t index = 0; index < steps; index++) {
        if (!exchange_sources(plan, rank, index)) continue;
        cr_assert_neq(verdict_of(plan), VERIFY_PROVED, "%s/%s of %d: step %zu of rank %d",
                      base_collective_name(algo->collective), algo->name, size, index, rank);
        exchange_sources(plan, rank, index);
      }
    }
    plan->order = PLAN_ORDER_EXACT;
    bool exact = algo_order(algo, size) == PLAN_ORDER_EXACT;
    cr_assert_eq(verdict_of(plan), exact ? VERIFY_PROVED : VERIFY_ORDER, "%s of %d", algo->name,
                 size);
    plan_free(plan);
  }
}

ParameterizedTestParameters(proof, stated_order_is_kept) {
  return every_collective();
}

ParameterizedTest(int *collective, proof, stated_order_is_kept) {
  test_each_algo((coll_collective_t)*collective, stated_order_is_kept_by);
}

/* Every collective that reduces has an exact plan, whatever memory can be mapped. */
Test(proof, exact_plans_for_any_memory) {
  static const coll_collective_t reducing[] = {COLL_ALLREDUCE, COLL_REDUCE, COLL_REDUCE_SCATTER};
  for (int i = 0; i < 3; i++) {
    int exact[PLAN_REACH_COUNT] = {0}, canonical[PLAN_REACH_COUNT] = {0};
    const algo_t *algo;
    for (int a = 0; (algo = algo_at(reducing[i], a)) != NULL; a++) {
      plan_t *plan = test_plan_build(algo, 5, 0, TEST_APART);
      exact[plan->reach] += plan->order == PLAN_ORDER_EXACT;
      canonical[plan->reach] += plan->order >= PLAN_ORDER_CANONICAL;
      plan_free(plan);
    }
    /* mapped memory needs none of its own: plans that only read it are as good */
    for (int reach = 0; reach <= PLAN_REACH_READ; reach++) {
      printf("%-14s %-8s canonical %d, exact %d\n", base_collective_name(reducing[i]),
             plan_reach_name((plan_reach_t)reach), canonical[reach], exact[reach]);
      cr_expect_geq(exact[reach], 1);
    }
  }
  fflush(stdout);
}
