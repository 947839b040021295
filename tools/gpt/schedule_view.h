/* What `gpt schedule` shows of a schedule: as text, as a picture and as JSON. */
#ifndef TOOLS_GPT_SCHEDULE_VIEW_H
#define TOOLS_GPT_SCHEDULE_VIEW_H

#include "libtrain/schedule/check.h"
#include "libtrain/schedule/formula.h"
#include "libtrain/schedule/timing.h"

typedef struct gpt_schedule_view {
  train_schedule_t *schedule;
  train_schedule_costs_t costs;
  train_schedule_report_t report;
  train_timing_t timing;
} gpt_schedule_view_t;

/* "F3" of an action: its kind and micro-batch; "F3b" with the chunk, "F3.1" with the slice where
 * there are several. */
#define GPT_ACTION_LABEL_BYTES 32
void gpt_schedule_label(const gpt_schedule_view_t *view, const train_action_t *action,
                        char label[GPT_ACTION_LABEL_BYTES]);

/* The time that a column of the text and of the picture stands for: the shortest action that takes
 * time. */
double gpt_schedule_unit(const gpt_schedule_view_t *view);

/* Prints a row per stage, time to the right, in blocks of at most `columns` characters a line. */
coll_status_t gpt_schedule_print_timeline(const gpt_schedule_view_t *view, int columns);

/* "schedule 1f1b: 4 stages, 8 micro-batches" in text[]. */
#define GPT_SCHEDULE_TITLE_BYTES 160
const char *gpt_schedule_title(const train_schedule_shape_t *shape,
                               char text[GPT_SCHEDULE_TITLE_BYTES]);

/* COLL_ERROR_SYSTEM names the path; COLL_ERROR_INVALID: too many actions for a picture. */
coll_status_t gpt_schedule_draw(const gpt_schedule_view_t *view, const char *path);
coll_status_t gpt_schedule_write_json(const gpt_schedule_view_t *view, const char *path);

#endif
