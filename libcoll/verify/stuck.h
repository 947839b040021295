/* Rejects a run that ended with steps or messages left over, and explains why. */
#ifndef VERIFY_STUCK_H
#define VERIFY_STUCK_H

#include "verify/run.h"

/* Every unfinished lane is blocked: rejects the plan and names which lanes wait for which. */
coll_status_t verify_reject_deadlock(verify_run_t *run);

/* The channel holds a message or signal that no rank received: rejects the plan. */
coll_status_t verify_reject_leftover(verify_run_t *run, const verify_channel_t *channel);

#endif
