/*
 * A join makes the calls of one communicator in a group one operation of several streams. The calls
 * begin when every stream has arrived: it has done the work queued on it before. Every stream then
 * waits until the calls have ended. One thread runs the calls, as part of a batch.
 */
#ifndef RUN_JOIN_H
#define RUN_JOIN_H

#include <stdbool.h>

#include "base/status.h"

typedef struct comm_join comm_join_t;

/* Makes a join of so many streams. It is freed when each of them has called comm_join_wait and the
 * calls have ended; comm_join_free is for a join that nothing uses yet. */
coll_status_t comm_join_create(int streams, comm_join_t **join);
void comm_join_free(comm_join_t *join);

/* The calling thread's stream arrives. `status` is its failure, with the thread's last error as
 * text, or COLL_OK. After a failure the calls are not run. Does not block. */
void comm_join_arrive(comm_join_t *join, coll_status_t status);

/* Whether all streams have arrived, or one has failed. */
bool comm_join_is_open(comm_join_t *join);

/* The failure of a stream that has arrived, which becomes the thread's last error, or COLL_OK. */
coll_status_t comm_join_failure(comm_join_t *join);

/* The calls have ended with `status`, and with the thread's last error as text if they failed. */
void comm_join_end(comm_join_t *join, coll_status_t status);

/* Blocks until the calls have ended. Returns their status; a failure becomes the thread's last
 * error. */
coll_status_t comm_join_wait(comm_join_t *join);

#endif
