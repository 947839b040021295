/* Closed formulas of the kinds of schedules, as their papers state them. */
#ifndef LIBTRAIN_SCHEDULE_FORMULA_H
#define LIBTRAIN_SCHEDULE_FORMULA_H

#include "libtrain/schedule/timing.h"

/* Most micro-batches, counted in each chunk, that are live on the stage (check.h). */
int train_schedule_live_limit(const train_schedule_shape_t *shape, int stage);

/* Updates between the weights that a micro-batch uses and its own update, at most. */
int train_schedule_staleness_limit(const train_schedule_shape_t *shape);

/* Most versions of the weights that a stage holds at a time. */
int train_schedule_versions_limit(const train_schedule_shape_t *shape);

/* Idle share of all stages from the first action to the last, for equal stages, chunks and slices,
 * messages and updates that take no time: Narayanan et al. 2021 for 1F1B and the interleaved one,
 * Qi et al. 2023 for ZB-H1, of which they give the case input >= forward >= weight and m >= p. */
double train_schedule_bubble(const train_schedule_shape_t *shape,
                             const train_schedule_costs_t *costs);

/* The formula of train_schedule_bubble as text: "(p-1) / (m+p-1)". p: stages, m: micro-batches of
 * an update, n: of all updates, v: virtual stages per stage, s: slices; f, b, w: times of a forward
 * pass and of the parts of a backward pass. */
const char *train_schedule_bubble_text(train_schedule_kind_t kind);

#endif
