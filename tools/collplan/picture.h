/* A plan as an SVG picture: a row per rank (and lane), time to the right, a box per step, arrows
 * for messages, signals and accesses to a peer's memory. */
#ifndef COLLPLAN_PICTURE_H
#define COLLPLAN_PICTURE_H

#include <stdio.h>

#include "plan/plan.h"

#define PICTURE_STEPS_MAX 20000 /* a larger picture would be unreadable */

/* COLL_ERROR_INVALID for a plan that deadlocks or is too large to be read. */
coll_status_t picture_write(const plan_t *plan, FILE *out);

#endif
