/* The rounds of a plan, as papers count them. */
#ifndef COLLPLAN_ROUNDS_H
#define COLLPLAN_ROUNDS_H

#include "plan/plan.h"

/* The time of the last receive or wait if each lane of a rank can send one message and receive one
 * at the same time, each takes one unit of time, and so does a signal, of which a lane can send any
 * number at once. No FIFO is ever full. COLL_ERROR_INVALID for a plan that deadlocks. */
coll_status_t rounds_count(const plan_t *plan, int64_t *rounds);

#endif
