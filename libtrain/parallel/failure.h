/*
 * Failures in the middle of a step. Each communicator of a rank fails by itself, and ranks that
 * wait for one another in different ones would wait for ever. So a rank whose call fails aborts all
 * of its communicators: whoever waits for it fails as well and does the same, until no rank waits.
 */
#ifndef LIBTRAIN_PARALLEL_FAILURE_H
#define LIBTRAIN_PARALLEL_FAILURE_H

#include "libtrain/parallel/ranks.h"

/* Whether a communicator is finished. A failure after which all work was agreed on by the ranks:
 * none of them waits. */
bool train_failure_finished(coll_comm_t comm); /* NULL is allowed */
bool train_ranks_failed(const train_ranks_t *ranks);

/* A communicator of the whole job for train_ranks_fail; NULL if this rank waits in the job's own
 * only. The owner is the caller. Collective over the job. */
coll_status_t train_failure_watch_create(const train_ranks_t *ranks, coll_comm_t *watch);

/* After a failure with base_last_error: aborts the communicators of the ranks. If a rank is lost,
 * waits in `watch` until that knows which, because the other communicators name the next rank that
 * stopped waiting for it, and number their own ranks. In the job's own communicator ranks may still
 * be in a call, which finds the loss by itself. Returns the status; base_last_error names the rank
 * of the job. */
coll_status_t train_ranks_fail(const train_ranks_t *ranks, coll_comm_t watch, coll_status_t status);

#endif
