/* collplan verify: verifies plans from files, or every plan that the builders make. */
#include "verify/verify.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/names.h"
#include "tools/collplan/collplan.h"

typedef struct request {
  const char *algo, *ranks, *layout;
  int64_t root; /* -1: first, middle and last */
  int32_t *sizes;
  size_t size_count;
  int rejected;
  bool has_header; /* the table's header is printed */
} request_t;

/* One row of the table. */
typedef struct row {
  int plans, rejected;
  size_t steps;
  uint64_t time_ns;
  bool any_order; /* ranks may hold different bits */
} row_t;

static void print_header(void) {
  printf("%-15s %-22s %-12s %6s %10s %9s  %s\n", "collective", "algorithm", "ranks", "plans",
         "steps", "ms", "verdict");
}

static void print_row(request_t *request, const char *collective, const char *algorithm,
                      const char *ranks, const row_t *row) {
  char verdict[32] = "proved";
  if (row->any_order) snprintf(verdict, sizeof verdict, "proved, order any");
  if (row->rejected > 0) snprintf(verdict, sizeof verdict, "%d REJECTED", row->rejected);
  if (!request->has_header) print_header();
  request->has_header = true;
  printf("%-15s %-22s %-12s %6d %10zu %9.1f  %s\n", collective, algorithm, ranks, row->plans,
         row->steps, (double)row->time_ns / 1e6, verdict);
  fflush(stdout);
}

/* `how`: what distinguishes this plan from others of the row. */
static coll_status_t prove(const plan_t *plan, const char *how, row_t *row) {
  verify_report_t report;
  uint64_t start_ns = base_clock_now_ns();
  COLL_TRY(verify_plan(plan, &report));
  row->time_ns += base_clock_now_ns() - start_ns;
  row->plans++;
  row->steps += report.steps;
  row->any_order = plan->order == PLAN_ORDER_ANY;
  if (report.verdict == VERIFY_PROVED) return COLL_OK;
  row->rejected++;
  fprintf(stderr, "collplan: %s/%s of %d ranks%s: %s: %s\n",
          base_collective_name(plan->shape.collective), plan->algorithm, plan->shape.size, how,
          verify_verdict_name(report.verdict), report.text);
  return COLL_OK;
}

static coll_status_t prove_shape(const algo_t *algo, const plan_shape_t *shape, row_t *row) {
  for (int in_place = 0; in_place < 2; in_place++) {
    plan_t *plan = NULL;
    char how[48];
    COLL_TRY(algo_build(algo, shape, ALGO_ALL_RANKS, in_place == 1, &plan));
    snprintf(how, sizeof how, ", root %d%s", shape->root, in_place == 1 ? ", in place" : "");
    coll_status_t status = prove(plan, how, row);
    plan_free(plan);
    COLL_TRY(status);
  }
  return COLL_OK;
}

/* Whether the algorithm was named, not just one of all. */
static bool is_named(const request_t *request) {
  return request->algo != NULL && strcmp(request->algo, "all") != 0;
}

static coll_status_t prove_size(const request_t *request, const algo_t *algo, int32_t size,
                                const topo_layout_t *layout, row_t *row) {
  int32_t roots[] = {0, size / 2, size - 1};
  size_t count = algo_has_root(algo) ? 3 : 1;
  if (request->root >= 0) {
    COLL_TRY(collplan_check_root(algo->collective, is_named(request) ? algo : NULL, request->root,
                                 size));
    if (algo_has_root(algo)) roots[0] = (int32_t)request->root;
    count = 1;
  }
  for (size_t i = 0; i < count; i++) {
    if (i > 0 && roots[i] == roots[i - 1]) continue;
    plan_shape_t shape = {
        .collective = algo->collective, .size = size, .root = roots[i], .layout = layout};
    COLL_TRY(prove_shape(algo, &shape, row));
  }
  return COLL_OK;
}

/* Plans that cannot be built where memory is not mapped are left out, unless they are named. */
static coll_status_t prove_placed(const request_t *request, const algo_t *algo, int32_t size,
                                  row_t *row) {
  topo_layout_t *layout;
  bool legal;
  COLL_TRY(collplan_layout(request->layout, size, &layout));
  const plan_shape_t shape = {.collective = algo->collective, .size = size, .layout = layout};
  coll_status_t status = algo_is_legal(algo, &shape, &legal);
  if (status == COLL_OK && (legal || is_named(request))) {
    status = prove_size(request, algo, size, layout, row);
  }
  topo_layout_free(layout);
  return status;
}

static coll_status_t prove_algo(request_t *request, const algo_t *algo) {
  row_t row = {0};
  for (size_t i = 0; i < request->size_count; i++) {
    COLL_TRY(prove_placed(request, algo, request->sizes[i], &row));
  }
  if (row.plans == 0) return COLL_OK;
  print_row(request, base_collective_name(algo->collective), algo->name, request->ranks, &row);
  request->rejected += row.rejected;
  return COLL_OK;
}

static coll_status_t prove_collective(request_t *request, coll_collective_t collective) {
  const algo_t *algo;
  if (request->algo != NULL && strcmp(request->algo, "all") != 0) {
    COLL_TRY(algo_find(collective, request->algo, &algo));
    return prove_algo(request, algo);
  }
  for (int i = 0; (algo = algo_at(collective, i)) != NULL; i++) {
    COLL_TRY(prove_algo(request, algo));
  }
  return COLL_OK;
}

static coll_status_t prove_file(request_t *request, const char *file_name) {
  plan_t *plan = NULL;
  row_t row = {0};
  char ranks[16], how[280];
  COLL_TRY(collplan_load(file_name, &plan));
  snprintf(ranks, sizeof ranks, "%d", plan->shape.size);
  snprintf(how, sizeof how, " in %s", file_name);
  coll_status_t status = prove(plan, how, &row);
  if (status == COLL_OK) {
    print_row(request, base_collective_name(plan->shape.collective), plan->algorithm, ranks, &row);
  }
  request->rejected += row.rejected;
  plan_free(plan);
  return status;
}

static coll_status_t prove_words(request_t *request, const char *words[], size_t word_count) {
  COLL_TRY(collplan_parse_ranks(request->ranks, &request->sizes, &request->size_count));
  if (word_count == 0) {
    return base_fail(COLL_ERROR_INVALID,
                     "verify: name a collective, a plan file, or 'all' (collplan verify --help)");
  }
  for (size_t i = 0; i < word_count; i++) {
    coll_collective_t collective;
    if (strcmp(words[i], "all") == 0) {
      for (int each = 0; each < COLL_COLLECTIVE_COUNT; each++) {
        COLL_TRY(prove_collective(request, (coll_collective_t)each));
      }
    } else if (collplan_is_collective(words[i], &collective)) {
      COLL_TRY(prove_collective(request, collective));
    } else {
      COLL_TRY(prove_file(request, words[i]));
    }
  }
  return COLL_OK;
}

int collplan_verify(int argc, char **argv) {
  request_t request = {.ranks = "1-8", .root = -1};
  const base_option_t options[] = {
      {0, "algo", BASE_OPTION_TEXT, &request.algo, "NAME",
       "one algorithm, or all of them (default)", 0, 0, NULL},
      {'n', "ranks", BASE_OPTION_TEXT, &request.ranks, "N", "rank counts: 8, 1-64, 2,4,8-16", 0, 0,
       NULL},
      {0, "root", BASE_OPTION_INTEGER, &request.root, "R",
       "the root, or the executor rank; -1: the first, middle and last rank", -1,
       PLAN_RANKS_MAX - 1, NULL},
      {0, "layout", BASE_OPTION_TEXT, &request.layout, "TEXT", COLLPLAN_LAYOUT_HELP, 0, 0, NULL},
  };
  const base_command_t command = {
      .name = "collplan verify",
      .usage = "COLLECTIVE|FILE|all ... [options]",
      .summary =
          "Proves plans by a symbolic run of all ranks: contributions, races, deadlock, "
          "matching. Plans of\nthe library are proved in place and out of place. Ends with "
          "1 if any plan is rejected, and says\nwhich rank, lane and step is at fault.",
      .examples =
          "  collplan verify all -n 1-16\n      everything the library can build\n"
          "  collplan verify reduce --algo binomial -n 2,4,8 --root 1\n"
          "      one algorithm\n"
          "  collplan verify all -n 32 --layout hosts:4x8\n"
          "      what can run among four hosts of eight ranks\n"
          "  collplan show allreduce --algo ring -n 4 | collplan verify -\n"
          "      a plan as text, from standard input\n",
      .options = options,
      .option_count = sizeof options / sizeof options[0]};
  const char *words[COLLPLAN_WORDS_MAX];
  size_t word_count;
  int code;
  if (!collplan_begin(&command, argc, argv, words, &word_count, &code)) return code;
  coll_status_t status = prove_words(&request, words, word_count);
  free(request.sizes);
  if (status != COLL_OK) return collplan_end(status);
  return request.rejected > 0 ? BASE_EXIT_FAILED : BASE_EXIT_DONE;
}
