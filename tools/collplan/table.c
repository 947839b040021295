/* collplan table: what each algorithm's plans cost, in rounds and bytes, against the formulas of
 * the papers, as Markdown. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/names.h"
#include "base/text.h"
#include "tools/collplan/claims.h"
#include "tools/collplan/collplan.h"
#include "tools/collplan/formula.h"
#include "tools/collplan/traffic.h"

/* Of the largest buffer of a rank. Divisible by 2^18, 3, 5 and 9, so that all chunks of the plans
 * below are equal. */
#define BYTES (INT64_C(45) << 18)

static const char head[] =
    "# Algorithms\n"
    "\n"
    "This page is the output of `collplan table`. Each number is counted in the plan and equal, to "
    "the byte, to the formula\nbeside it, which the command evaluates; otherwise it fails. Where "
    "the papers have none, numbers are only counted.\n"
    "\n"
    "| letter | meaning |\n"
    "|---|---|\n"
    "| S | bytes of the largest buffer of a rank: the vector, or the blocks of all ranks; here "
    "%" PRId64
    " |\n"
    "| p, P | ranks; the largest power of two up to p |\n"
    "| H, m | hosts; ranks of a host, of the smallest if they differ |\n"
    "| X, Y, Z | extents of the grid, from the last one on |\n"
    "| [p>P] | 1 if it holds, else 0 |\n"
    "\n"
    "**Ranks**: their number, or their layout as `--layout` takes it. **Rounds**: in a round each "
    "lane of a rank sends one\nmessage and receives one, or passes any number of signals. **Bytes "
    "sent**: the most that a rank sends, loads from\npeers and stores to peers. **Slowest links**: "
    "with hosts, the most bytes that leave a host; on a grid, the bytes over\nthe busiest link in "
    "one direction. Where a message crosses a grid, it goes dimension by dimension.\n";

/* ---- a row ----------------------------------------------------------------------------------*/

typedef struct row {
  const claim_t *claim;
  const algo_t *algo;
  char ranks[32]; /* "12" or "hosts:8x8" */
  plan_shape_t shape;
  topo_layout_t *layout;
} row_t;

static bool has_block_of_each_rank(coll_collective_t collective) {
  plan_blocks_t in = plan_blocks_of(collective, PLAN_INPUT);
  plan_blocks_t out = plan_blocks_of(collective, PLAN_OUTPUT);
  return in >= PLAN_BLOCKS_PER_RANK || out >= PLAN_BLOCKS_PER_RANK;
}

static formula_values_t values_of(const plan_shape_t *shape) {
  const topo_layout_t *layout = shape->layout;
  formula_values_t values = {{0}};
  values.of['S'] = BYTES;
  values.of['p'] = shape->size;
  for (values.of['P'] = 1; 2 * values.of['P'] <= shape->size;) values.of['P'] *= 2;
  if (layout == NULL) return values;
  if (layout->levels > 0) {
    int32_t least = layout->size;
    for (int32_t host = 0; host < layout->level[0].groups; host++) {
      int32_t ranks = 0;
      for (int32_t i = 0; i < layout->size; i++) ranks += layout->level[0].group_of[i] == host;
      least = ranks < least ? ranks : least;
    }
    values.of['H'] = layout->level[0].groups;
    values.of['m'] = least;
  }
  for (int32_t d = 0; d < layout->dims; d++) {
    values.of[(int)"XYZ"[layout->dims - 1 - d]] = layout->extents[d];
  }
  return values;
}

/* Prints a cell. COLL_ERROR_INVALID: the formula has another value than the counted one. */
static coll_status_t print_cell(const row_t *row, const char *formula, int64_t counted,
                                const char *what) {
  int64_t value;
  if (formula == NULL) {
    printf(" %" PRId64 " counted |", counted);
    return COLL_OK;
  }
  const formula_values_t values = values_of(&row->shape);
  COLL_TRY(formula_evaluate(formula, &values, &value));
  if (value != counted) {
    return base_fail(COLL_ERROR_INVALID,
                     "%s/%s, %s ranks: %" PRId64 " %s in the plan, but %s is %" PRId64,
                     base_collective_name(row->algo->collective), row->algo->name, row->ranks,
                     counted, what, formula, value);
  }
  if (formula[strspn(formula, "0123456789")] == '\0') {
    printf(" %s |", formula);
  } else {
    printf(" %s = %" PRId64 " |", formula, counted);
  }
  return COLL_OK;
}

static coll_status_t print_counts(const row_t *row, const traffic_t *traffic) {
  const claim_t *claim = row->claim;
  printf("| `%s` | %s |", claim->algorithm, row->ranks);
  COLL_TRY(print_cell(row, claim->rounds, traffic->rounds, "rounds"));
  COLL_TRY(print_cell(row, claim->sent, traffic->sent, "bytes sent"));
  if (row->layout == NULL) {
    printf(" |\n");
    return COLL_OK;
  }
  COLL_TRY(print_cell(row, claim->slow, traffic->slow, "bytes over the slowest links"));
  printf("\n");
  return COLL_OK;
}

static coll_status_t print_plan(const row_t *row) {
  plan_t *plan;
  traffic_t traffic;
  bool by_rank = has_block_of_each_rank(row->algo->collective);
  COLL_TRY(algo_build(row->algo, &row->shape, ALGO_ALL_RANKS, false, &plan));
  coll_status_t status = traffic_count(plan, by_rank ? BYTES / plan->shape.size : BYTES, &traffic);
  plan_free(plan);
  return status == COLL_OK ? print_counts(row, &traffic) : status;
}

/* The ranks of "hosts:3+5" or "grid:2x3x4": the sum or product of its numbers. */
static int32_t ranks_of(const char *layout) {
  int32_t total = 0, number = 0;
  char sign = '+';
  for (const char *at = strchr(layout, ':') + 1;; at++) {
    if (*at >= '0' && *at <= '9') {
      number = number * 10 + (*at - '0');
      continue;
    }
    total = sign == 'x' ? total * number : total + number;
    if (*at != 'x' && *at != '+') return total;
    number = 0;
    sign = *at;
  }
}

/* ranks: "12", or a layout. */
static coll_status_t print_row(const claim_t *claim, const char *ranks, size_t length) {
  row_t row = {.claim = claim, .shape = {.collective = claim->collective}};
  int64_t size;
  snprintf(row.ranks, sizeof row.ranks, "%.*s", (int)length, ranks);
  COLL_TRY(algo_find(claim->collective, claim->algorithm, &row.algo));
  if (base_text_integer(row.ranks, 1, PLAN_RANKS_MAX, &size)) {
    row.shape.size = (int32_t)size;
    return print_plan(&row);
  }
  row.shape.size = ranks_of(row.ranks);
  COLL_TRY(topo_layout_parse(row.ranks, row.shape.size, &row.layout));
  row.shape.layout = row.layout;
  coll_status_t status = print_plan(&row);
  topo_layout_free(row.layout);
  return status;
}

/* ---- tables ---------------------------------------------------------------------------------*/

/* The algorithm's rows; an algorithm without any is an error. */
static coll_status_t print_algorithm(const algo_t *algo) {
  const claim_t *claim;
  bool found = false;
  for (int i = 0; (claim = claim_at(i)) != NULL; i++) {
    if (claim->collective != algo->collective || strcmp(claim->algorithm, algo->name) != 0) {
      continue;
    }
    found = true;
    for (const char *at = claim->layouts; *at != '\0'; at += strspn(at, " ")) {
      size_t length = strcspn(at, " ");
      COLL_TRY(print_row(claim, at, length));
      at += length;
    }
  }
  if (found) return COLL_OK;
  return base_fail(COLL_ERROR_INVALID, "%s/%s has no row in tools/collplan/claims.c",
                   base_collective_name(algo->collective), algo->name);
}

static coll_status_t print_collective(coll_collective_t collective) {
  const algo_t *algo;
  printf("\n## %s\n\n| algorithm | ranks | rounds | bytes sent | slowest links |\n",
         base_collective_name(collective));
  printf("|---|---|---|---|---|\n");
  for (int i = 0; (algo = algo_at(collective, i)) != NULL; i++) COLL_TRY(print_algorithm(algo));
  return COLL_OK;
}

/* Whether an earlier algorithm has the same name and paper. */
static bool is_listed(const algo_t *algo, coll_collective_t until) {
  const algo_t *each;
  for (int c = 0; c < (int)until; c++) {
    for (int i = 0; (each = algo_at((coll_collective_t)c, i)) != NULL; i++) {
      if (strcmp(each->name, algo->name) == 0 && strcmp(each->paper, algo->paper) == 0) {
        return true;
      }
    }
  }
  return false;
}

static void print_papers(void) {
  const algo_t *algo;
  printf("\n## Papers\n\n| algorithm | paper |\n|---|---|\n");
  for (int c = 0; c < COLL_COLLECTIVE_COUNT; c++) {
    for (int i = 0; (algo = algo_at((coll_collective_t)c, i)) != NULL; i++) {
      if (!is_listed(algo, (coll_collective_t)c))
        printf("| `%s` | %s |\n", algo->name, algo->paper);
    }
  }
}

int collplan_table(int argc, char **argv) {
  const base_command_t command = {
      .name = "collplan table",
      .usage = "",
      .summary =
          "Prints docs/algorithms.md: rounds and bytes of each algorithm, counted in its plans, "
          "beside the\nformula of its paper. Fails if they differ.",
      .examples = "  collplan table > docs/algorithms.md\n      makes the page again\n"};
  const char *words[COLLPLAN_WORDS_MAX];
  size_t word_count;
  int code;
  if (!collplan_begin(&command, argc, argv, words, &word_count, &code)) return code;
  if (word_count > 0) {
    return collplan_end(
        base_fail(COLL_ERROR_INVALID, "table: takes no words (collplan table --help)"));
  }
  coll_status_t status = COLL_OK;
  printf(head, BYTES);
  for (int c = 0; c < COLL_COLLECTIVE_COUNT && status == COLL_OK; c++) {
    status = print_collective((coll_collective_t)c);
  }
  if (status == COLL_OK) print_papers();
  return collplan_end(base_tool_input(status));
}
