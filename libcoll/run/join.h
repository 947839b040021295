/*
 * A join makes the calls of one communicator in a group one operation of several streams. The calls
 * begin when every stream has arrived: it has done the work queued on it before. Every stream then
 * waits until the calls have ended. One thread runs the calls, as part of a batch.
 */
#ifndef RUN_JOIN_H
#define RUN_JOIN_H

#include <stdbool.h>

#include "base/status.h"

typedef struct run_join run_join_t;

/* Makes a join of so many streams. It is freed when each of them has called run_join_wait and the
 * calls have ended; run_join_free is for a join that nothing uses yet. */
coll_status_t run_join_create(int streams, run_join_t **join);
void run_join_free(run_join_t *join);

/* The calling thread's stream arrives. `status` is its failure, with the thread's last error as
 * text, or COLL_OK. After a failure the calls are not run. Does not block. */
void run_join_arrive(run_join_t *join, coll_status_t status);

/* Whether all streams have arrived, or one has failed. */
bool run_join_is_open(run_join_t *join);

/* The failure of a stream that has arrived, which becomes the thread's last error, or COLL_OK. */
coll_status_t run_join_failure(run_join_t *join);

/* The calls have ended with `status`, and with the thread's last error as text if they failed. */
void run_join_end(run_join_t *join, coll_status_t status);

/* Blocks until the calls have ended. Returns their status; a failure becomes the thread's last
 * error. */
coll_status_t run_join_wait(run_join_t *join);

#endif
