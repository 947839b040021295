/* Compares actions as bytes, and dependencies pair by pair: simple, and slow. */
#include "oracle.h"

#include <stdlib.h>
#include <string.h>

#include "libtrain/schedule/formula.h"

/* ---- the same actions ---- */

static int compare_actions(const void *a, const void *b) {
  return memcmp(a, b, sizeof(train_action_t));
}

static bool has_same_actions(const train_schedule_t *schedule, const train_schedule_t *original) {
  bool same = true;
  for (int stage = 0; stage < schedule->shape.stages && same; stage++) {
    size_t count, other_count;
    const train_action_t *program = train_schedule_program(schedule, stage, &count);
    const train_action_t *other = train_schedule_program(original, stage, &other_count);
    if (count != other_count) return false;
    train_action_t *sorted = malloc(2 * count * sizeof *sorted);
    memcpy(sorted, program, count * sizeof *sorted);
    memcpy(sorted + count, other, count * sizeof *sorted);
    qsort(sorted, count, sizeof *sorted, compare_actions);
    qsort(sorted + count, count, sizeof *sorted, compare_actions);
    same = memcmp(sorted, sorted + count, count * sizeof *sorted) == 0;
    free(sorted);
  }
  return same;
}

/* ---- dependencies ---- */

typedef struct graph {
  const train_schedule_t *schedule;
  size_t count;
  int *stage_of; /* of each action */
  bool *edges;   /* [count * count]: the first before the second */
} graph_t;

static int virtual_stage(const graph_t *graph, size_t at) {
  return graph->schedule->actions[at].chunk * graph->schedule->shape.stages + graph->stage_of[at];
}

static bool is_backward(const train_action_t *action) {
  return action->kind == TRAIN_BACKWARD || action->kind == TRAIN_BACKWARD_INPUT;
}

/* Whether `a` must run before `b`, stated pair by pair. */
static bool precedes(const graph_t *graph, size_t at_a, size_t at_b) {
  const train_action_t *a = &graph->schedule->actions[at_a], *b = &graph->schedule->actions[at_b];
  int ka = virtual_stage(graph, at_a), kb = virtual_stage(graph, at_b);
  int batch = graph->schedule->shape.micro_batches;
  bool same_stage = graph->stage_of[at_a] == graph->stage_of[at_b];
  if (b->kind == TRAIN_UPDATE) {
    if (!same_stage) return false;
    if (a->kind == TRAIN_UPDATE) return a->micro_batch < b->micro_batch;
    return a->kind != TRAIN_FORWARD && a->micro_batch / batch == b->micro_batch / batch;
  }
  if (a->kind == TRAIN_UPDATE) return same_stage && a->version <= b->version;
  if (a->micro_batch != b->micro_batch) return false;
  if (a->kind == TRAIN_FORWARD && b->kind == TRAIN_FORWARD) {
    return (a->slice == b->slice && ka == kb - 1) || (ka == kb && a->slice == b->slice - 1);
  }
  if (is_backward(a) && is_backward(b)) {
    return (a->slice == b->slice && ka == kb + 1) || (ka == kb && a->slice == b->slice + 1);
  }
  if (ka != kb || a->slice != b->slice) return false;
  return (a->kind == TRAIN_FORWARD && is_backward(b)) ||
         (is_backward(a) && b->kind == TRAIN_BACKWARD_WEIGHT);
}

static void add_edges(graph_t *graph) {
  for (size_t a = 0; a < graph->count; a++) {
    for (size_t b = 0; b < graph->count; b++) {
      bool in_program = graph->stage_of[a] == graph->stage_of[b] && a + 1 == b;
      graph->edges[a * graph->count + b] = a != b && (in_program || precedes(graph, a, b));
    }
  }
}

/* Removes actions that nothing precedes until none is left. */
static bool is_acyclic(const graph_t *graph) {
  bool *removed = calloc(graph->count, 1);
  size_t left = graph->count;
  for (bool any = true; any;) {
    any = false;
    for (size_t b = 0; b < graph->count; b++) {
      bool is_free = !removed[b];
      for (size_t a = 0; a < graph->count && is_free; a++) {
        is_free = removed[a] || !graph->edges[a * graph->count + b];
      }
      if (!is_free) continue;
      removed[b] = any = true;
      left--;
    }
  }
  free(removed);
  return left == 0;
}

/* ---- first in, first out ---- */

/* Two messages of one channel are sent and received in the same order. */
static bool keeps_order(const graph_t *graph) {
  const train_schedule_t *s = graph->schedule;
  size_t *receiver = malloc(graph->count * sizeof *receiver);
  bool keeps = true;
  for (size_t a = 0; a < graph->count; a++) {
    receiver[a] = graph->count;
    for (size_t b = 0; b < graph->count; b++) {
      int step = s->actions[a].kind == TRAIN_FORWARD ? 1 : -1;
      bool same_kind =
          (s->actions[a].kind == TRAIN_FORWARD && s->actions[b].kind == TRAIN_FORWARD) ||
          (is_backward(&s->actions[a]) && is_backward(&s->actions[b]));
      if (same_kind && s->actions[a].micro_batch == s->actions[b].micro_batch &&
          s->actions[a].slice == s->actions[b].slice &&
          virtual_stage(graph, b) == virtual_stage(graph, a) + step) {
        receiver[a] = b;
      }
    }
  }
  for (size_t a = 0; a < graph->count; a++) {
    for (size_t b = a + 1; b < graph->count && graph->stage_of[a] == graph->stage_of[b]; b++) {
      bool same_channel = receiver[a] < graph->count && receiver[b] < graph->count &&
                          is_backward(&s->actions[a]) == is_backward(&s->actions[b]);
      if (same_channel && receiver[a] > receiver[b]) keeps = false;
    }
  }
  free(receiver);
  return keeps;
}

/* ---- activations ---- */

static bool is_within_limit(const train_schedule_t *schedule, int stage) {
  size_t count;
  const train_action_t *program = train_schedule_program(schedule, stage, &count);
  for (size_t now = 0; now < count; now++) {
    int live = 0;
    for (int i = 0; i < train_schedule_total(&schedule->shape); i++) {
      for (int chunk = 0; chunk < schedule->shape.chunks; chunk++) {
        bool begun = false, ends_later = false;
        for (size_t at = 0; at < count; at++) {
          const train_action_t *action = &program[at];
          if (action->kind == TRAIN_UPDATE || action->micro_batch != i || action->chunk != chunk) {
            continue;
          }
          if (at <= now) begun = true;
          if (at > now) ends_later = true;
        }
        live += begun && ends_later;
      }
    }
    if (live > train_schedule_live_limit(&schedule->shape, stage)) return false;
  }
  return true;
}

bool oracle_accepts(const train_schedule_t *schedule, const train_schedule_t *original) {
  if (!has_same_actions(schedule, original)) return false;
  graph_t graph = {.schedule = schedule, .count = schedule->first[schedule->shape.stages]};
  graph.stage_of = malloc(graph.count * sizeof *graph.stage_of);
  graph.edges = malloc(graph.count * graph.count);
  for (int stage = 0; stage < schedule->shape.stages; stage++) {
    for (size_t at = schedule->first[stage]; at < schedule->first[stage + 1]; at++) {
      graph.stage_of[at] = stage;
    }
  }
  add_edges(&graph);
  bool accepts = is_acyclic(&graph) && keeps_order(&graph);
  for (int stage = 0; stage < schedule->shape.stages && accepts; stage++) {
    accepts = is_within_limit(schedule, stage);
  }
  free(graph.stage_of);
  free(graph.edges);
  return accepts;
}
