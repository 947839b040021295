/* collplan stats: the costs of each algorithm, counted in its plan. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/names.h"
#include "tools/collplan/collplan.h"
#include "tools/collplan/timeline.h"

/* The operations of one rank. Chunks are counted, and divided by the parts of a block when
 * printed. */
typedef struct load {
  int64_t steps, messages, sent, remote, reduced, signals;
} load_t;

static void count_reduce(const plan_program_t *program, int32_t rank, const plan_step_t *step,
                         load_t *load) {
  load->reduced += (int64_t)step->reduce.dst.count * (step->reduce.source_count - 1);
  if (step->reduce.dst.rank != rank) load->remote += step->reduce.dst.count;
  for (int32_t i = 0; i < step->reduce.source_count; i++) {
    const plan_span_t *source = &program->sources[step->reduce.first_source + i];
    if (source->rank != rank) load->remote += source->count;
  }
}

static void count_step(const plan_program_t *program, int32_t rank, const plan_step_t *step,
                       load_t *load) {
  load->steps++;
  switch (step->kind) {
    case PLAN_SEND:
      load->messages++;
      load->sent += step->send.src.count;
      break;
    case PLAN_COPY:
      if (step->copy.src.rank != rank || step->copy.dst.rank != rank) {
        load->remote += step->copy.dst.count;
      }
      break;
    case PLAN_REDUCE: count_reduce(program, rank, step, load); break;
    case PLAN_SIGNAL: load->signals++; break;
    default: break;
  }
}

static int64_t larger(int64_t a, int64_t b) {
  return a > b ? a : b;
}

/* The maximum over the ranks of each field. */
static load_t max_load(const plan_t *plan) {
  load_t max = {0};
  for (int32_t rank = 0; rank < plan->shape.size; rank++) {
    const plan_program_t *program = &plan->programs[rank];
    load_t load = {0};
    for (int lane = 0; lane < plan->lanes; lane++) {
      for (size_t i = 0; i < program->lanes[lane].count; i++) {
        count_step(program, rank, &program->lanes[lane].steps[i], &load);
      }
    }
    max.steps = larger(max.steps, load.steps);
    max.messages = larger(max.messages, load.messages);
    max.sent = larger(max.sent, load.sent);
    max.remote = larger(max.remote, load.remote);
    max.reduced = larger(max.reduced, load.reduced);
    max.signals = larger(max.signals, load.signals);
  }
  return max;
}

static coll_status_t print_row(const plan_t *plan) {
  timeline_t timeline;
  COLL_TRY(timeline_create(plan, (timeline_cost_t){.step = 0, .hop = 1}, &timeline));
  load_t max = max_load(plan);
  double parts = plan->parts;
  printf("%-22s %-8s %6" PRId64 " %6" PRId64 " %8" PRId64 " %7" PRId64 " %8.3f %8.3f %8.3f %8.3f\n",
         plan->algorithm, plan_reach_name(plan->reach), timeline.end, max.steps, max.messages,
         max.signals, (double)max.sent / parts, (double)max.remote / parts,
         (double)max.reduced / parts, plan->scratch_chunks / parts);
  timeline_free(&timeline);
  return COLL_OK;
}

static coll_status_t print_table(coll_collective_t collective, int32_t size, int32_t root,
                                 const topo_layout_t *layout) {
  const algo_t *algo;
  printf(
      "%s, %d rank%s: the most that any rank has; volumes in blocks (a block is the count of "
      "the call)\n\n",
      base_collective_name(collective), size, size == 1 ? "" : "s");
  printf("%-22s %-8s %6s %6s %8s %7s %8s %8s %8s %8s\n", "algorithm", "reach", "rounds", "steps",
         "messages", "signals", "sent", "mapped", "reduced", "scratch");
  for (int i = 0; (algo = algo_at(collective, i)) != NULL; i++) {
    plan_shape_t shape = {.collective = collective,
                          .size = size,
                          .root = algo_has_root(algo) ? root : 0,
                          .layout = layout};
    plan_t *plan = NULL;
    bool legal;
    COLL_TRY(algo_is_legal(algo, &shape, &legal));
    if (!legal) continue;
    COLL_TRY(algo_build(algo, &shape, ALGO_ALL_RANKS, false, &plan));
    coll_status_t status = print_row(plan);
    plan_free(plan);
    COLL_TRY(status);
  }
  return COLL_OK;
}

int collplan_stats(int argc, char **argv) {
  int64_t ranks = 8, root = 0;
  const char *layout_text = NULL;
  topo_layout_t *layout = NULL;
  const base_option_t options[] = {
      {'n', "ranks", BASE_OPTION_INTEGER, &ranks, "N", "number of ranks", 1, PLAN_RANKS_MAX, NULL},
      {0, "root", BASE_OPTION_INTEGER, &root, "R", "the root, or the executor rank", 0,
       PLAN_RANKS_MAX - 1, NULL},
      {0, "layout", BASE_OPTION_TEXT, &layout_text, "TEXT", COLLPLAN_LAYOUT_HELP, 0, 0, NULL},
  };
  const base_command_t command = {
      .name = "collplan stats",
      .usage = "COLLECTIVE [options]",
      .summary =
          "Counts what each algorithm of a collective costs: rounds (messages or signals "
          "that follow one\nanother), and per rank messages, signals, volume sent, volume "
          "loaded from or stored to mapped\npeers, volume reduced, scratch.",
      .examples =
          "  collplan stats allreduce -n 8\n      8 ranks, out of place\n"
          "  collplan stats allreduce -n 8 --layout hosts:2x4\n"
          "      the algorithms that can run among two hosts\n",
      .options = options,
      .option_count = sizeof options / sizeof options[0]};
  const char *word;
  coll_collective_t collective = COLL_ALLREDUCE;
  int code;
  if (!collplan_begin_one(&command, argc, argv, "collective", &word, &code)) return code;
  coll_status_t status = base_collective_find(word, &collective);
  if (status == COLL_OK) status = collplan_check_root(collective, NULL, root, (int32_t)ranks);
  if (status == COLL_OK) status = collplan_layout(layout_text, (int32_t)ranks, &layout);
  if (status == COLL_OK) status = print_table(collective, (int32_t)ranks, (int32_t)root, layout);
  topo_layout_free(layout);
  return collplan_end(status);
}
