/*
 * Non-blocking collectives that are served: libcoll carries them out on a stream, and the program
 * gets a generalized request of its MPI. The functions that test and wait look at the streams.
 */
#ifndef FRONTENDS_MPI_REQUESTS_H
#define FRONTENDS_MPI_REQUESTS_H

#include "frontends/mpi/verbs.h"

/* Serves or passes the call; the result of the MPI function. */
int layer_start_collective(const layer_call_t *call, MPI_Request *request);

/* Completes the requests whose collectives are done. */
void layer_requests_poll(void);

/* Whether one of these requests is of a collective that is not done. */
bool layer_requests_pending(int count, const MPI_Request *requests);

/* One look while waiting: polls, lets the MPI make progress, and gives the core away. */
void layer_requests_turn(void);

/* Returns when none of them is pending. */
void layer_requests_wait(int count, const MPI_Request *requests);

/* The same for all those of a communicator. */
void layer_requests_drain(const layer_comm_t *comm);

/* Before a call of the MPI that may complete requests. A collective that has failed has called the
 * error handler of its communicator. The MPI returns its error, too, but first calls the handler of
 * MPI_COMM_WORLD or MPI_COMM_SELF, to which a generalized request belongs: until the matching
 * layer_errors_release, those return. False: none has failed. */
bool layer_errors_hold(void);

/* Returns `result`, that of the call between the two. */
int layer_errors_release(bool is_held, int result);

/* In a child of fork: what is under way is the parent's. */
void layer_requests_forget(void);

#endif
