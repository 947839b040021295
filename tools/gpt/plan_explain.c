/* gpt plan --explain: what makes the first layout faster than the second, and what excludes others.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "libtrain/mesh/show.h"
#include "tools/gpt/plan.h"

#define TERMS (FIRST_GROUP + TRAIN_MESH_GROUPS)
#define FIRST_GROUP 4

/* A part of a step's time, of two layouts, in seconds. */
typedef struct term {
  char name[64];
  double first, second;
} term_t;

/* ---- the first and the second ---- */

static void fill_terms(const train_plan_time_t *first, const train_plan_time_t *second,
                       term_t terms[TERMS]) {
  terms[0] = (term_t){"matrix products", first->compute - first->elementwise,
                      second->compute - second->elementwise};
  terms[1] = (term_t){"other operators", first->elementwise, second->elementwise};
  terms[2] = (term_t){"update of the parameters", first->update, second->update};
  terms[3] = (term_t){"bubble of the pipeline", first->bubble, second->bubble};
  for (int group = 0; group < TRAIN_MESH_GROUPS; group++) {
    term_t *term = &terms[FIRST_GROUP + group];
    *term = (term_t){.first = first->exposed[group], .second = second->exposed[group]};
    snprintf(term->name, sizeof term->name, "exposed communication of %s",
             train_mesh_group_name((train_mesh_group_t)group));
  }
}

/* Whether the traffic of a layout on some axis is between hosts while that of the other is not. */
static void print_links(const train_plan_candidate_t *a, const train_plan_candidate_t *b) {
  for (int group = 0; group < TRAIN_MESH_GROUPS; group++) {
    bool first = a->cost.traffic.bytes[group][TRAIN_PLAN_BETWEEN] > 0;
    bool second = b->cost.traffic.bytes[group][TRAIN_PLAN_BETWEEN] > 0;
    if (first == second) continue;
    printf("  of %d, %s leaves the hosts; of %d it does not\n", first ? 1 : 2,
           train_mesh_group_name((train_mesh_group_t)group), first ? 2 : 1);
  }
}

static void compare_two(const train_plan_candidate_t *a, const train_plan_candidate_t *b) {
  term_t terms[TERMS];
  double difference = b->cost.time.step - a->cost.time.step;
  char first[TRAIN_PLAN_FLAGS_BYTES], second[TRAIN_PLAN_FLAGS_BYTES];
  printf("\n1 (%s)\nis %.1f %% faster than 2 (%s):\n", train_plan_flags(&a->layout, first),
         100 * difference / b->cost.time.step, train_plan_flags(&b->layout, second));
  fill_terms(&a->cost.time, &b->cost.time, terms);
  for (int i = 0; i < TERMS; i++) {
    double change = terms[i].second - terms[i].first;
    if (fabs(change) < 0.001 * b->cost.time.step) continue;
    printf("  %-40s %10.2f instead of %10.2f ms\n", terms[i].name, terms[i].first * 1e3,
           terms[i].second * 1e3);
  }
  print_links(a, b);
}

/* ---- the others ---- */

/* Reasons of memory have numbers of each layout; one line is for all of them. */
static bool is_same_reason(const train_plan_candidate_t *a, const train_plan_candidate_t *b) {
  if (a->limit != b->limit) return false;
  return a->limit == TRAIN_PLAN_LIMIT_MEMORY || strcmp(a->reason, b->reason) == 0;
}

static void print_excluded(const train_plan_list_t *list) {
  if (list->possible == list->count) return;
  printf("\nimpossible divisions of the ranks, and why:\n");
  for (int i = list->possible; i < list->count; i++) {
    const train_plan_candidate_t *candidate = &list->candidates[i];
    bool told = false;
    int count = 0;
    for (int j = list->possible; j < i; j++) {
      told = told || is_same_reason(&list->candidates[j], candidate);
    }
    for (int j = i; j < list->count; j++) {
      count += is_same_reason(&list->candidates[j], candidate);
    }
    if (!told) printf("  %4d  %s\n", count, candidate->reason);
  }
}

void gpt_plan_explain(const gpt_plan_layouts_t *plan) {
  const train_plan_list_t *list = &plan->list;
  if (list->possible > 1) compare_two(&list->candidates[0], &list->candidates[1]);
  print_excluded(list);
}
