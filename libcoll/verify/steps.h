/* The effect of each kind of step on the symbolic state. */
#ifndef VERIFY_STEPS_H
#define VERIFY_STEPS_H

#include "verify/run.h"

/* Runs the lane's next step if it is not blocked. *done: it was run. */
coll_status_t verify_step_run(verify_run_t *run, verify_lane_t *lane, bool *done);

#endif
