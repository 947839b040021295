/* The timeline of a schedule as text, as papers draw it. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "tools/gpt/schedule_view.h"

#define NAME_WIDTH 11 /* "stage 1023 " */
#define MARK_UNITS 5  /* between marks of the time axis */

void gpt_schedule_label(const gpt_schedule_view_t *view, const train_action_t *action,
                        char label[GPT_ACTION_LABEL_BYTES]) {
  static const char letters[TRAIN_ACTION_KIND_COUNT] = {'F', 'B', 'B', 'W', 'U'};
  const train_schedule_shape_t *shape = &view->schedule->shape;
  int length = snprintf(label, GPT_ACTION_LABEL_BYTES, "%c%d", letters[action->kind],
                        (int)action->micro_batch);
  if (action->kind == TRAIN_UPDATE) return;
  size_t room = GPT_ACTION_LABEL_BYTES - (size_t)length;
  if (shape->chunks > 26) {
    snprintf(label + length, room, ":%d", (int)action->chunk);
  } else if (shape->chunks > 1) {
    snprintf(label + length, room, "%c", (char)('a' + action->chunk));
  }
  if (shape->slices > 1) snprintf(label + length, room, ".%d", (int)action->slice);
}

const char *gpt_schedule_title(const train_schedule_shape_t *shape,
                               char text[GPT_SCHEDULE_TITLE_BYTES]) {
  int length =
      snprintf(text, GPT_SCHEDULE_TITLE_BYTES, "schedule %s: %d stage%s, ",
               train_schedule_names[shape->kind], shape->stages, shape->stages == 1 ? "" : "s");
  if (shape->chunks > 1) {
    length += snprintf(text + length, GPT_SCHEDULE_TITLE_BYTES - (size_t)length,
                       "%d virtual stages each, ", shape->chunks);
  }
  if (shape->steps > 1) {
    length += snprintf(text + length, GPT_SCHEDULE_TITLE_BYTES - (size_t)length, "%d updates of ",
                       shape->steps);
  }
  length += snprintf(text + length, GPT_SCHEDULE_TITLE_BYTES - (size_t)length, "%d micro-batch%s",
                     shape->micro_batches, shape->micro_batches == 1 ? "" : "es");
  if (shape->slices > 1) {
    snprintf(text + length, GPT_SCHEDULE_TITLE_BYTES - (size_t)length, " of %d slices",
             shape->slices);
  }
  return text;
}

double gpt_schedule_unit(const gpt_schedule_view_t *view) {
  double unit = INFINITY;
  for (size_t i = 0; i < view->schedule->first[view->schedule->shape.stages]; i++) {
    double duration = view->timing.spans[i].end - view->timing.spans[i].start;
    if (duration > 1e-9 * view->timing.end) unit = fmin(unit, duration);
  }
  return isinf(unit) ? 1 : unit;
}

/* ---- lines ---- */

typedef struct timeline {
  const gpt_schedule_view_t *view;
  double unit;
  size_t cell;  /* characters of a unit */
  size_t width; /* of the whole line */
  char *line;
} timeline_t;

static size_t column_of(const timeline_t *timeline, double time) {
  return (size_t)lround(time / timeline->unit * (double)timeline->cell);
}

/* "B3---" from column `start` up to the one before `end`, which stays free. */
static void put_action(const timeline_t *timeline, const char *label, size_t start, size_t end) {
  for (size_t at = start; at + 1 < end; at++) {
    timeline->line[at] = at - start < strlen(label) ? label[at - start] : '-';
  }
}

static void fill_stage(const timeline_t *timeline, int stage) {
  const train_schedule_t *schedule = timeline->view->schedule;
  memset(timeline->line, ' ', timeline->width);
  for (size_t at = 0; at < timeline->width; at += timeline->cell) timeline->line[at] = '.';
  for (size_t i = schedule->first[stage]; i < schedule->first[stage + 1]; i++) {
    const train_span_t *span = &timeline->view->timing.spans[i];
    size_t start = column_of(timeline, span->start), end = column_of(timeline, span->end);
    char label[GPT_ACTION_LABEL_BYTES];
    if (end > start) memset(timeline->line + start, ' ', end - start);
    gpt_schedule_label(timeline->view, &schedule->actions[i], label);
    put_action(timeline, label, start, end);
  }
}

static void fill_axis(const timeline_t *timeline) {
  memset(timeline->line, ' ', timeline->width);
  for (int mark = 0;; mark += MARK_UNITS) {
    char number[32];
    size_t at = (size_t)mark * timeline->cell;
    int length = snprintf(number, sizeof number, "%g", mark * timeline->unit);
    if (at + (size_t)length > timeline->width) return;
    memcpy(timeline->line + at, number, (size_t)length);
  }
}

static void print_part(const timeline_t *timeline, const char *name, size_t from, size_t to) {
  while (to > from && timeline->line[to - 1] == ' ') to--;
  printf("%-*s%.*s\n", NAME_WIDTH, name, (int)(to - from), timeline->line + from);
}

static void print_block(const timeline_t *timeline, size_t from, size_t to) {
  fill_axis(timeline);
  print_part(timeline, "time", from, to);
  for (int stage = 0; stage < timeline->view->schedule->shape.stages; stage++) {
    char name[32];
    snprintf(name, sizeof name, "stage %d", stage);
    fill_stage(timeline, stage);
    print_part(timeline, name, from, to);
  }
}

static size_t longest_label(const gpt_schedule_view_t *view) {
  size_t longest = 1;
  for (size_t i = 0; i < view->schedule->first[view->schedule->shape.stages]; i++) {
    char label[GPT_ACTION_LABEL_BYTES];
    if (view->timing.spans[i].end <= view->timing.spans[i].start) continue;
    gpt_schedule_label(view, &view->schedule->actions[i], label);
    if (strlen(label) > longest) longest = strlen(label);
  }
  return longest;
}

coll_status_t gpt_schedule_print_timeline(const gpt_schedule_view_t *view, int columns) {
  timeline_t timeline = {.view = view, .unit = gpt_schedule_unit(view)};
  timeline.cell = longest_label(view) + 1;
  timeline.width = column_of(&timeline, view->timing.end);
  COLL_TRY(base_alloc(timeline.width + 1, 1, "the timeline", (void **)&timeline.line));
  size_t units = ((size_t)columns - NAME_WIDTH) / timeline.cell;
  if (units >= MARK_UNITS) units = units / MARK_UNITS * MARK_UNITS;
  if (units == 0) units = 1;
  size_t part = units * timeline.cell;
  if (timeline.width <= (size_t)columns - NAME_WIDTH) part = timeline.width + 1;
  for (size_t from = 0; from < timeline.width; from += part) {
    size_t to = from + part < timeline.width ? from + part : timeline.width;
    print_block(&timeline, from, to);
    printf("\n");
  }
  free(timeline.line);
  return COLL_OK;
}
