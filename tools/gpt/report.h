/* The record of a training run, for --json. */
#ifndef TOOLS_GPT_REPORT_H
#define TOOLS_GPT_REPORT_H

#include "libtrain/trainer.h"

typedef struct gpt_report gpt_report_t;

/* COLL_ERROR_SYSTEM when nothing can be written at `path`, which the caller keeps alive. */
coll_status_t gpt_report_create(const char *path, gpt_report_t **report);
void gpt_report_destroy(gpt_report_t *report);

/* What was run: sizes, ranks and threads. */
void gpt_report_setup(gpt_report_t *report, const train_layout_t *layout, const train_data_t *data,
                      const train_options_t *options, const train_team_t *team, int threads);
void gpt_report_step(gpt_report_t *report, const train_step_t *step);
void gpt_report_evaluation(gpt_report_t *report, const train_step_t *step,
                           const train_evaluation_t *evaluation);

/* Writes it all, once; COLL_ERROR_SYSTEM names the path. */
coll_status_t gpt_report_write(gpt_report_t *report, const train_result_t *result);

#endif
