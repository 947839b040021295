/*
 * The checks of a rank that destroys or finalizes a communicator.
 */
#ifndef LIFETIME_LEAVE_H
#define LIFETIME_LEAVE_H

#include "comm/comm.h"

/* Final checks of a rank that destroys the communicator; the caller holds the lock.
 * COLL_ERROR_MISMATCH if messages show that the ranks' calls did not match, or if a mismatch was
 * found that no call of this rank has returned. */
coll_status_t lifetime_leave(struct coll_comm *comm);

#endif
