/*
 * Mutation test of the verifier. Correct plans of every builder are mutated at random. The verifier
 * must reject every mutant that fails in the brute-force interpreter under any tested schedule; a
 * mutant that it accepts although a schedule breaks it fails the test. The table shows the numbers
 * per mutation. A build with a sanitizer makes fewer mutants.
 */
#include <criterion/criterion.h>

#include <stdio.h>
#include <stdlib.h>

#include "algo/algo.h"
#include "base/names.h"
#include "brute.h"
#include "harness/sample.h"
#include "mutate.h"
#include "plan/text.h"
#include "random.h"
#include "samples.h"
#include "schedule.h"
#include "verify/verify.h"

#define MUTANTS_PER_PLAN 100
#define MUTANTS_PER_SAMPLE 1000
#define SCHEDULES_ACCEPTED 200 /* for a mutant that the verifier accepts */
#define SCHEDULES_REJECTED 60  /* for one that it rejects, until the first fault */
#define SEED 20260101

enum { VERDICTS = VERIFY_ORDER + 1 };

typedef struct tally {
  int made, malformed, rejected, broken, missed, harmless;
} tally_t;

typedef struct score {
  tally_t by_mutation[MUTATION_KIND_COUNT];
  int faults[VERDICTS][BRUTE_FAULT_COUNT]; /* rejected mutants, by the fault that brute force found,
                                              if any */
  uint64_t random;
  int plans;
  size_t schedules;
} score_t;

static brute_fault_t try_schedules(const plan_t *plan, int schedules, score_t *score) {
  brute_t *brute = brute_create(plan);
  brute_fault_t fault = BRUTE_RIGHT;
  for (int i = 0; i < schedules && fault == BRUTE_RIGHT; i++) {
    fault = schedule_run(brute, random_next(&score->random));
    score->schedules++;
  }
  if (fault == BRUTE_RIGHT && plan->shape.size <= 2) {
    size_t runs = 0;
    fault = schedule_explore(brute, 2, (size_t)schedules * 8, &runs);
    score->schedules += runs;
  }
  brute_free(brute);
  return fault;
}

static void judge_mutant(const plan_t *mutant, mutation_t mutation, score_t *score) {
  tally_t *tally = &score->by_mutation[mutation];
  verify_report_t report;
  tally->made++;
  cr_assert_eq(verify_plan(mutant, &report), COLL_OK, "%s", base_last_error());
  if (report.verdict == VERIFY_MALFORMED) {
    tally->malformed++;
    return;
  }
  bool accepted = report.verdict == VERIFY_PROVED;
  int schedules = accepted ? SCHEDULES_ACCEPTED : SCHEDULES_REJECTED;
  brute_fault_t fault = try_schedules(mutant, schedules, score);
  tally->broken += fault != BRUTE_RIGHT;
  if (!accepted) {
    tally->rejected++;
    score->faults[report.verdict][fault]++;
    cr_expect(report.text[0] != '\0' && report.rank >= 0, "a rejection without a rank");
  } else if (fault == BRUTE_RIGHT) {
    tally->harmless++;
  } else {
    tally->missed++;
    printf("MISSED (%s): brute force finds '%s' in this mutant, which the verifier accepts\n",
           mutation_name(mutation), brute_fault_name(fault));
    plan_text_write(mutant, stdout);
  }
}

static void mutate_plan(const plan_t *plan, int mutants, score_t *score) {
  for (int i = 0; i < mutants / (int)harness_stride(HARNESS_VALUES); i++) {
    mutation_t mutation = (mutation_t)random_below(&score->random, MUTATION_KIND_COUNT);
    plan_t *mutant = mutate_clone(plan);
    bool changed = mutate(mutant, mutation, &score->random);
    if (changed && random_below(&score->random, 8) == 0) {
      mutation_t second = (mutation_t)random_below(&score->random, MUTATION_KIND_COUNT);
      mutate(mutant, second, &score->random);
    }
    if (changed && !plan_equal(plan, mutant)) judge_mutant(mutant, mutation, score);
    plan_free(mutant);
  }
}

/* The unmutated plan must be proved, and correct under every schedule. */
static void try_plan(const plan_t *plan, int mutants, score_t *score) {
  verify_report_t report;
  const plan_shape_t *shape = &plan->shape;
  cr_assert_eq(verify_plan(plan, &report), COLL_OK);
  cr_expect_eq(report.verdict, VERIFY_PROVED, "%s of %d ranks: %s", plan->algorithm, shape->size,
               report.text);
  brute_fault_t fault = try_schedules(plan, SCHEDULES_REJECTED, score);
  cr_expect_eq(fault, BRUTE_RIGHT, "%s/%s of %d ranks, root %d: brute force finds '%s'",
               base_collective_name(shape->collective), plan->algorithm, shape->size, shape->root,
               brute_fault_name(fault));
  mutate_plan(plan, mutants, score);
  score->plans++;
}

/* All ranks out of place, all in place, or every second one. */
static void try_shape(const algo_t *algo, const plan_shape_t *shape, int mutants, score_t *score) {
  plan_t *plan = NULL, *in_place = NULL;
  cr_assert_eq(algo_build(algo, shape, ALGO_ALL_RANKS, false, &plan), COLL_OK);
  cr_assert_eq(algo_build(algo, shape, ALGO_ALL_RANKS, true, &in_place), COLL_OK);
  try_plan(plan, mutants, score);
  try_plan(in_place, mutants, score);
  for (int32_t rank = 0; rank < shape->size; rank += 2) plan_exchange(plan, in_place, rank);
  try_plan(plan, mutants, score);
  plan_free(plan);
  plan_free(in_place);
}

static void try_builder(const algo_t *algo, score_t *score) {
  static const int sizes[] = {2, 3, 4, 5, 8};
  for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
    plan_shape_t shape = {.collective = algo->collective, .size = sizes[i]};
    if (base_collective_is_rooted(algo->collective)) {
      shape.root = random_below(&score->random, shape.size);
    }
    try_shape(algo, &shape, sizes[i] < 8 ? MUTANTS_PER_PLAN : MUTANTS_PER_PLAN / 4, score);
  }
}

static void try_samples(score_t *score) {
  static const char *const samples[] = {SAMPLE_PAIR, SAMPLE_CHAIN, SAMPLE_PUSH, SAMPLE_RENDEZVOUS};
  for (size_t i = 0; i < sizeof samples / sizeof samples[0]; i++) {
    plan_t *plan = sample_plan(samples[i], NULL, NULL);
    try_plan(plan, MUTANTS_PER_SAMPLE, score);
    for (int32_t rank = 0; rank < plan->shape.size; rank++) plan->programs[rank].in_place = true;
    bool serves_in_place = plan->shape.collective == COLL_ALLREDUCE;
    if (serves_in_place) try_plan(plan, MUTANTS_PER_SAMPLE, score);
    plan_free(plan);
  }
}

static void print_mutations(const score_t *score, tally_t *all) {
  printf("%-24s %7s %9s %8s %7s %7s %8s\n", "mutation", "mutants", "malformed", "rejected",
         "broken", "missed", "harmless");
  for (int i = 0; i < MUTATION_KIND_COUNT; i++) {
    const tally_t *tally = &score->by_mutation[i];
    printf("%-24s %7d %9d %8d %7d %7d %8d\n", mutation_name((mutation_t)i), tally->made,
           tally->malformed, tally->rejected, tally->broken, tally->missed, tally->harmless);
    all->made += tally->made;
    all->malformed += tally->malformed;
    all->rejected += tally->rejected;
    all->broken += tally->broken;
    all->missed += tally->missed;
    all->harmless += tally->harmless;
  }
  printf("%-24s %7d %9d %8d %7d %7d %8d\n", "all", all->made, all->malformed, all->rejected,
         all->broken, all->missed, all->harmless);
}

static void print_verdicts(const score_t *score) {
  printf("\n%-16s", "verdict / brute");
  for (int fault = 1; fault < BRUTE_FAULT_COUNT; fault++) {
    printf(" %13s", brute_fault_name((brute_fault_t)fault));
  }
  printf(" %13s\n", "nothing found");
  for (int verdict = VERIFY_UNMATCHED; verdict < VERDICTS; verdict++) {
    printf("%-16s", verify_verdict_name((verify_verdict_t)verdict));
    for (int fault = 1; fault < BRUTE_FAULT_COUNT; fault++) {
      printf(" %13d", score->faults[verdict][fault]);
    }
    printf(" %13d\n", score->faults[verdict][BRUTE_RIGHT]);
  }
}

Test(verify_mutation, no_broken_mutant_is_accepted) {
  score_t score = {.random = SEED};
  tally_t all = {0};
  try_samples(&score);
  for (int c = 0; c < COLL_COLLECTIVE_COUNT; c++) {
    const algo_t *algo;
    for (int i = 0; (algo = algo_at((coll_collective_t)c, i)) != NULL; i++) {
      try_builder(algo, &score);
    }
  }
  printf("mutants of %d good plans, %zu schedules run\n\n", score.plans, score.schedules);
  print_mutations(&score, &all);
  print_verdicts(&score);
  int caught = all.broken - all.missed;
  printf("\nmutants that a schedule breaks: %d, rejected: %d, kill rate %.2f%%\n", all.broken,
         caught, 100.0 * caught / (all.broken > 0 ? all.broken : 1));
  fflush(stdout);
  cr_expect_eq(all.missed, 0, "the verifier accepted %d broken mutants", all.missed);
  cr_expect_gt(all.broken, 1000, "only %d broken mutants: this proves little", all.broken);
}
