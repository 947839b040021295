/* How well a run has used the machine, in the outputs of gpt train: MFU, exposed
 * communication, the bubble. */
#ifndef TOOLS_GPT_METRICS_H
#define TOOLS_GPT_METRICS_H

#include <jansson.h>

#include "libtrain/files/events.h"
#include "libtrain/trainer.h"
#include "tools/gpt/settings.h"
#include "tools/gpt/speed.h"

/* Sums over the steps of a run, of rank 0. Zeroed at first. */
typedef struct gpt_metrics {
  double ms, exposed_ms, bubble;
  int steps;
} gpt_metrics_t;

void gpt_metrics_add(gpt_metrics_t *metrics, const train_step_t *step);

/* Adds "mfu" and, of several stages, "bubble" to a record of the log; NULL is allowed. */
void gpt_metrics_log(double mfu, double bubble, int stages, json_t *line);

/* The same as "speed/mfu" and "time/bubble". Returns their number. */
size_t gpt_metrics_scalars(double mfu, double bubble, int stages, train_scalar_t scalars[2]);

/* Prints a table: MFU with its formula, the share of time in which rank 0 waited for communication,
 * and of several stages the bubble beside the closed formula of the schedule with as many token
 * slices. `tokens_per_s` are those of the run. */
void gpt_metrics_print(const gpt_metrics_t *metrics, const gpt_settings_t *settings,
                       const gpt_speed_t *speed, int stages, int slices, double tokens_per_s);

/* The mean bubble of the steps. */
double gpt_metrics_bubble(const gpt_metrics_t *metrics);

#endif
