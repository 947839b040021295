/*
 * What a thread that sleeps finds out about its peers: that the communicator has failed, that a
 * peer is gone, that a peer waits in another call, or that ranks wait for each other. For that,
 * each rank that sleeps publishes what it waits for in its flight recorder.
 */
#ifndef COMM_WATCH_H
#define COMM_WATCH_H

#include "comm/wait.h"

/* Before the first sleep and after each one that brought nothing. Fails, having finished the
 * communicator concerned, with its failure, with COLL_ERROR_RANK_LOST where a peer died, with
 * COLL_ERROR_MISMATCH (coll.h says what a mismatch is), or with COLL_ERROR_TIMEOUT (hang.h). */
coll_status_t comm_watch(comm_wait_t *wait, comm_task_t tasks[], size_t count);

/* The tasks go on: nothing is waited for any more. */
void comm_watch_end(comm_wait_t *wait);

#endif
