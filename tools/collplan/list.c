/* collplan list: every collective and algorithm, as a table or as JSON. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/names.h"
#include "tools/collplan/collplan.h"

/* The reach of an algorithm does not depend on the rank count. */
static coll_status_t reach_of(const algo_t *algo, const char **reach) {
  plan_shape_t shape = {.collective = algo->collective, .size = 8};
  plan_t *plan = NULL;
  COLL_TRY(algo_outline(algo, &shape, &plan));
  *reach = plan_reach_name(plan->reach);
  plan_free(plan);
  return COLL_OK;
}

static const char *order_of(const algo_t *algo) {
  return base_collective_reduces(algo->collective) ? plan_order_name(algo->order) : "-";
}

/* The order for powers of two, which may be stricter. */
static const char *power_order_of(const algo_t *algo) {
  return algo->power_order > algo->order ? plan_order_name(algo->power_order) : order_of(algo);
}

static void print_head(const char *last) {
  printf("%-15s %-22s %-8s %-10s %s\n", "collective", "algorithm", "reach", "order", last);
}

static coll_status_t append(json_t *entry, json_t *list) {
  if (entry != NULL && json_array_append_new(list, entry) == 0) return COLL_OK;
  return base_fail(COLL_ERROR_MEMORY, "out of memory for the list");
}

/* A plan from a file. */
static coll_status_t print_plan(const char *file_name, json_t *list) {
  plan_t *plan;
  COLL_TRY(collplan_load(file_name, &plan));
  const char *collective = base_collective_name(plan->shape.collective);
  const char *reach = plan_reach_name(plan->reach), *order = "-";
  const char *note = plan->order == PLAN_ORDER_ANY ? "ranks may hold different bits" : "";
  if (base_collective_reduces(plan->shape.collective)) order = plan_order_name(plan->order);
  coll_status_t status = COLL_OK;
  if (list == NULL) {
    print_head("note");
    printf("%-15s %-22s %-8s %-10s %s\n", collective, plan->algorithm, reach, order, note);
  } else {
    status = append(
        json_pack("{s:s, s:s, s:s, s:s, s:s, s:s}", "collective", collective, "algorithm",
                  plan->algorithm, "reach", reach, "order", order, "file", file_name, "note", note),
        list);
  }
  plan_free(plan);
  return status;
}

static coll_status_t print_row(const algo_t *algo) {
  const char *reach = NULL;
  char order[PLAN_NAME_BYTES];
  COLL_TRY(reach_of(algo, &reach));
  snprintf(order, sizeof order, "%s%s", power_order_of(algo),
           algo->power_order > algo->order ? "*" : "");
  printf("%-15s %-22s %-8s %-10s %s\n", base_collective_name(algo->collective), algo->name, reach,
         order, algo->paper);
  return COLL_OK;
}

static coll_status_t add_to_json(const algo_t *algo, json_t *list) {
  const char *reach = NULL;
  COLL_TRY(reach_of(algo, &reach));
  return append(
      json_pack("{s:s, s:s, s:s, s:s, s:s, s:s}", "collective",
                base_collective_name(algo->collective), "algorithm", algo->name, "reach", reach,
                "order", order_of(algo), "power_order", power_order_of(algo), "paper", algo->paper),
      list);
}

/* Lists the algorithms of one collective, or with COLL_COLLECTIVE_COUNT of all. Appends to `list`
 * unless NULL. */
static coll_status_t walk(coll_collective_t wanted, json_t *list) {
  for (int i = 0; i < COLL_COLLECTIVE_COUNT; i++) {
    coll_collective_t collective = (coll_collective_t)i;
    if (wanted != COLL_COLLECTIVE_COUNT && wanted != collective) continue;
    const algo_t *algo;
    for (int index = 0; (algo = algo_at(collective, index)) != NULL; index++) {
      COLL_TRY(list != NULL ? add_to_json(algo, list) : print_row(algo));
    }
  }
  return COLL_OK;
}

/* What is listed: a file, or the algorithms of one collective or all. */
static coll_status_t list_word(const char *word, json_t *list) {
  coll_collective_t wanted = COLL_COLLECTIVE_COUNT;
  if (word != NULL && !collplan_is_collective(word, &wanted)) return print_plan(word, list);
  if (list == NULL) print_head("paper");
  return walk(wanted, list);
}

static coll_status_t list(const char *word, bool as_json) {
  if (!as_json) return list_word(word, NULL);
  json_t *array = json_array();
  coll_status_t status = array != NULL ? list_word(word, array)
                                       : base_fail(COLL_ERROR_MEMORY, "out of memory for the list");
  if (status == COLL_OK) {
    json_dumpf(array, stdout, JSON_INDENT(2));
    putchar('\n');
  }
  json_decref(array);
  return status;
}

int collplan_list(int argc, char **argv) {
  bool as_json = false;
  const base_option_t options[] = {
      {0, "json", BASE_OPTION_FLAG, &as_json, NULL, "as an array of JSON objects", 0, 0, NULL},
  };
  const base_command_t command = {
      .name = "collplan list",
      .usage = "[COLLECTIVE|FILE] [options]",
      .summary =
          "Lists the algorithms. Reach: which memory of its peers a rank loads or stores: own "
          "(none,\nmessages only), scratch (shared memory), user (the callers' buffers too). "
          "Order: how it\nreduces: any (of a file: ranks may hold different bits), fixed, "
          "canonical (a tree split at powers of two, see coll.h; "
          "canonical*: only if\nthe number of ranks is a power of two), exact (canonical, and "
          "rounded once).",
      .examples =
          "  collplan list\n      all of them\n"
          "  collplan list allreduce --json\n      those of allreduce, for a program\n"
          "  collplan list tree.plan\n      a plan that was imported\n",
      .options = options,
      .option_count = sizeof options / sizeof options[0]};
  const char *words[COLLPLAN_WORDS_MAX];
  size_t word_count;
  int code;
  if (!collplan_begin(&command, argc, argv, words, &word_count, &code)) return code;
  if (word_count > 1) {
    return collplan_end(base_fail(COLL_ERROR_INVALID,
                                  "list: one collective or file at most, not also '%s'", words[1]));
  }
  return collplan_end(list(word_count == 1 ? words[0] : NULL, as_json));
}
