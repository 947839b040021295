/* Slices of equal time for TeraPipe, by the count of FLOPs (metrics.h). */
#ifndef LIBTRAIN_PLANNER_SLICES_H
#define LIBTRAIN_PLANNER_SLICES_H

#include "libtrain/model/slices.h"

#define TRAIN_PLAN_SLICES 4 /* if their number is not given */

/* Cuts sequences of the model's context into `count` slices, the slowest of which is as fast as
 * possible: later tokens attend to more others, so that later slices are shorter. Lengths are
 * multiples of `multiple` (with sequence parallelism the tensor ranks), and as fine as the search
 * allows (schedule/slices.h). COLL_ERROR_INVALID: so many slices do not fit, or no unit divides
 * the context; the message says what to give. */
coll_status_t train_plan_slices(const train_model_config_t *config, int count, int multiple,
                                train_slices_t *slices);

#endif
