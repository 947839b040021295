/*
 * Proofs of plans for 1,024 ranks, one test per plan, so that each has a process of its own whose
 * memory can be measured. A plan has up to five million steps. The default run proves the
 * algorithms with the most steps and the most signals; tools/test --full proves all.
 */
#include <criterion/criterion.h>
#include <criterion/parameterized.h>

#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "algo/algo.h"
#include "base/names.h"
#include "harness/harness.h"
#include "verify/verify.h"

/* The lanes of a two-way algorithm need clocks, which a plan of one lane and messages only does
 * not: a bidirectional ring of 1,024 ranks takes 35 s. */

/* A sanitizer's shadow memory and checks multiply both figures. */
#if defined(__SANITIZE_ADDRESS__)
enum { RANKS = 128, RANKS_TWO_WAY = 64, SECONDS_MOST = 100, MEGABYTES_MOST = 8000 };
#else
enum { RANKS = 1024, RANKS_TWO_WAY = 256, SECONDS_MOST = 10, MEGABYTES_MOST = 1000 };
#endif

enum { CASES_MOST = 512 };

typedef struct scale_case {
  char algorithm[PLAN_NAME_BYTES];
  int collective, in_place;
} scale_case_t;

/* The largest of each kind: rings, halving, trees, direct messages, signals. */
static const struct {
  coll_collective_t collective;
  const char *algorithm;
} sample[] = {
    {COLL_ALLREDUCE, "ring"},          {COLL_ALLREDUCE, "halving_doubling"},
    {COLL_ALLREDUCE, "tree"},          {COLL_ALLREDUCE, "direct"},
    {COLL_ALLREDUCE, "twophase_pull"}, {COLL_REDUCE_SCATTER, "halving"},
    {COLL_REDUCE, "binomial"},         {COLL_ALLTOALL, "staged"},
};

static bool is_in_sample(const algo_t *algo, int in_place) {
  for (size_t i = 0; i < sizeof sample / sizeof sample[0] && in_place == 0; i++) {
    if (sample[i].collective != algo->collective) continue;
    if (strcmp(sample[i].algorithm, algo->name) == 0) return true;
  }
  return false;
}

static struct criterion_test_params cases_to_prove(void) {
  static scale_case_t cases[CASES_MOST];
  size_t count = 0;
  bool full = harness_full();
  for (int c = 0; c < COLL_COLLECTIVE_COUNT; c++) {
    const algo_t *algo;
    for (int i = 0; (algo = algo_at((coll_collective_t)c, i)) != NULL; i++) {
      for (int in_place = 0; in_place < 2 && count < CASES_MOST; in_place++) {
        if (!full && !is_in_sample(algo, in_place)) continue;
        scale_case_t *added = &cases[count++];
        *added = (scale_case_t){.collective = c, .in_place = in_place};
        snprintf(added->algorithm, sizeof added->algorithm, "%s", algo->name);
      }
    }
  }
  return cr_make_param_array(scale_case_t, cases, count);
}

ParameterizedTestParameters(scale, a_thousand_ranks) {
  return cases_to_prove();
}

ParameterizedTest(scale_case_t *proved, scale, a_thousand_ranks) {
  coll_collective_t collective = (coll_collective_t)proved->collective;
  plan_shape_t shape = {.collective = collective, .size = RANKS};
  const algo_t *algo = NULL;
  plan_t *plan = NULL;
  verify_report_t report;
  struct rusage used;
  cr_assert_eq(algo_find(collective, proved->algorithm, &algo), COLL_OK);
  if (algo->two_way) shape.size = RANKS_TWO_WAY;
  if (algo_has_root(algo)) shape.root = shape.size / 3;
  coll_status_t status = algo_build(algo, &shape, ALGO_ALL_RANKS, proved->in_place == 1, &plan);
  cr_assert_eq(status, COLL_OK, "%s", base_last_error());
  cr_assert_eq(verify_plan(plan, &report), COLL_OK, "%s/%s: %s", base_collective_name(collective),
               algo->name, base_last_error());
  cr_expect_eq(report.verdict, VERIFY_PROVED, "%s/%s: %s", base_collective_name(collective),
               algo->name, report.text);
  plan_free(plan);
  getrusage(RUSAGE_SELF, &used);
  double seconds = (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
                   (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e6;
  double megabytes = (double)used.ru_maxrss * 1024 / 1e6;
  printf("%d ranks: %-14s %-21s %-12s %9zu steps %6.2f s %6.0f MB\n", shape.size,
         base_collective_name(collective), algo->name, proved->in_place == 1 ? "in place" : "",
         report.steps, seconds, megabytes);
  fflush(stdout);
  cr_expect_lt(seconds, SECONDS_MOST, "%s/%s: %.1f s of CPU time", base_collective_name(collective),
               algo->name, seconds);
  cr_expect_lt(megabytes, MEGABYTES_MOST, "%s/%s: %.0f MB", base_collective_name(collective),
               algo->name, megabytes);
}
