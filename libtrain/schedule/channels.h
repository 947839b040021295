/* Runs the messages of a schedule without its computation, under the transport's rule
 * (schedule.h). */
#ifndef LIBTRAIN_SCHEDULE_CHANNELS_H
#define LIBTRAIN_SCHEDULE_CHANNELS_H

#include "libtrain/schedule/schedule.h"

/* The least window with which all stages come to their end. COLL_ERROR_INVALID: a receive gets
 * another message than its action needs, or the stages wait for each other with any window. The
 * actions must be in the ranges of the shape. */
coll_status_t train_channels_check(const train_schedule_t *schedule, int *window);

#endif
