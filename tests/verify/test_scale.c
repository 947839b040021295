/*
 * Proofs of plans for 1,024 ranks, one test per plan, so that each has a process of its own whose
 * memory can be measured. A plan has up to six million steps. The default run proves the
 * algorithms with the most steps and the most signals, and composed ones over hosts and grids of
 * 256 and 1,024 ranks; tools/test --full proves all, each either in place or not: a plan is as
 * large in both forms, and algo/test_proof.c proves both up to 256 ranks.
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
#if HARNESS_BUILD_PATIENCE > 1
enum { RANKS = 128, RANKS_TWO_WAY = 64, LAYOUT_RANKS_MOST = 256 };
enum { MEGABYTES_MOST = 8000 };
#else
enum { RANKS = 1024, RANKS_TWO_WAY = 256, LAYOUT_RANKS_MOST = 1024 };
enum { MEGABYTES_MOST = 1000 };
#endif

/* Of CPU time. The longest proof has taken 11 s, and 48 s beside programs that share the caches. */
enum { SECONDS_MOST = 100 };

enum { CASES_MOST = 512 };

typedef struct scale_case {
  char algorithm[PLAN_NAME_BYTES], layout[32]; /* layout "": none */
  int collective, in_place, ranks;
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

/* Layouts, and the composed algorithm that is proved over them. */
static const struct {
  const char *algorithm, *layout;
  int ranks;
} layouts[] = {
    {"hierarchical", "hosts:16x16", 256},
    {"hierarchical", "hosts:100+156", 256},
    {"torus2d", "grid:16x16", 256},
    {"torus3d", "grid:4x8x8", 256},
    {"mesh2d", "mesh:16x16", 256},
    {"blueconnect", "hosts:16x16", 256},
    {"hierarchical_pipelined", "hosts:16x16", 256},
    {"torus2d_multiport", "grid:16x16", 256},
    {"torus3d_multiport", "grid:4x8x8", 256},
    {"leaders", "hosts:100+156", 256},
    {"hierarchical", "hosts:32x32", 1024},
    {"hierarchical", "hosts:32x32/numa:4", 1024},
    {"hierarchical", "hosts:341+342+341", 1024},
    {"torus2d", "grid:32x32", 1024},
    {"torus3d", "grid:8x8x16", 1024},
    {"mesh2d", "mesh:32x32", 1024},
    {"blueconnect", "hosts:32x32", 1024},
};

static const coll_collective_t layout_sample[] = {COLL_ALLREDUCE, COLL_REDUCE_SCATTER,
                                                  COLL_ALLGATHER};

static bool is_in_layout_sample(coll_collective_t collective) {
  for (size_t i = 0; i < sizeof layout_sample / sizeof layout_sample[0]; i++) {
    if (layout_sample[i] == collective) return true;
  }
  return false;
}

static bool is_in_sample(const algo_t *algo, int in_place) {
  for (size_t i = 0; i < sizeof sample / sizeof sample[0] && in_place == 0; i++) {
    if (sample[i].collective != algo->collective) continue;
    if (strcmp(sample[i].algorithm, algo->name) == 0) return true;
  }
  return false;
}

static scale_case_t cases[CASES_MOST];
static size_t case_count;

static void add_case(const algo_t *algo, int in_place, int ranks, const char *layout) {
  cr_assert_lt(case_count, CASES_MOST);
  scale_case_t *added = &cases[case_count++];
  *added =
      (scale_case_t){.collective = (int)algo->collective, .in_place = in_place, .ranks = ranks};
  snprintf(added->algorithm, sizeof added->algorithm, "%s", algo->name);
  snprintf(added->layout, sizeof added->layout, "%s", layout);
}

static void add_layouts(const algo_t *algo, int in_place, bool full) {
  for (size_t i = 0; i < sizeof layouts / sizeof layouts[0]; i++) {
    if (strcmp(layouts[i].algorithm, algo->name) != 0 || layouts[i].ranks > LAYOUT_RANKS_MOST) {
      continue;
    }
    if (!full && (in_place != 0 || !is_in_layout_sample(algo->collective))) continue;
    add_case(algo, in_place, layouts[i].ranks, layouts[i].layout);
  }
}

static struct criterion_test_params cases_to_prove(void) {
  bool full = harness_full();
  for (int c = 0; c < COLL_COLLECTIVE_COUNT; c++) {
    const algo_t *algo;
    for (int i = 0; (algo = algo_at((coll_collective_t)c, i)) != NULL; i++) {
      for (int in_place = 0; in_place < 2; in_place++) {
        bool all = full && in_place == i % 2;
        if (all || is_in_sample(algo, in_place)) {
          add_case(algo, in_place, algo->two_way ? RANKS_TWO_WAY : RANKS, "");
        }
        add_layouts(algo, in_place, all);
      }
    }
  }
  return cr_make_param_array(scale_case_t, cases, case_count);
}

ParameterizedTestParameters(scale, a_thousand_ranks) {
  return cases_to_prove();
}

ParameterizedTest(scale_case_t *proved, scale, a_thousand_ranks) {
  coll_collective_t collective = (coll_collective_t)proved->collective;
  topo_layout_t *layout = NULL;
  if (proved->layout[0] != '\0') {
    cr_assert_eq(topo_layout_parse(proved->layout, proved->ranks, &layout), COLL_OK, "%s",
                 base_last_error());
  }
  plan_shape_t shape = {.collective = collective, .size = proved->ranks, .layout = layout};
  const algo_t *algo = NULL;
  plan_t *plan = NULL;
  verify_report_t report;
  struct rusage used;
  cr_assert_eq(algo_find(collective, proved->algorithm, &algo), COLL_OK);
  if (algo_has_root(algo)) shape.root = shape.size / 3;
  coll_status_t status = algo_build(algo, &shape, ALGO_ALL_RANKS, proved->in_place == 1, &plan);
  cr_assert_eq(status, COLL_OK, "%s", base_last_error());
  cr_assert_eq(verify_plan(plan, &report), COLL_OK, "%s/%s: %s", base_collective_name(collective),
               algo->name, base_last_error());
  cr_expect_eq(report.verdict, VERIFY_PROVED, "%s/%s: %s", base_collective_name(collective),
               algo->name, report.text);
  plan_free(plan);
  topo_layout_free(layout);
  getrusage(RUSAGE_SELF, &used);
  double seconds = (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
                   (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e6;
  double megabytes = (double)used.ru_maxrss * 1024 / 1e6;
  printf("%d ranks: %-14s %-17s %-18s %-9s %9zu steps %6.2f s %6.0f MB\n", shape.size,
         base_collective_name(collective), algo->name, proved->layout,
         proved->in_place == 1 ? "in place" : "", report.steps, seconds, megabytes);
  fflush(stdout);
  cr_expect_lt(seconds, SECONDS_MOST, "%s/%s: %.1f s of CPU time", base_collective_name(collective),
               algo->name, seconds);
  cr_expect_lt(megabytes, MEGABYTES_MOST, "%s/%s: %.0f MB", base_collective_name(collective),
               algo->name, megabytes);
}
