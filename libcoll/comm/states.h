/*
 * The states of the handles of communicators, which jobs change (lifetime/async.h) and any thread
 * may ask for. One lock guards those of all handles, as they change rarely.
 */
#ifndef COMM_STATES_H
#define COMM_STATES_H

#include "comm/comm.h"

/* Guards the states, and what the jobs share. Never held while a thread waits for anything but a
 * job. */
extern pthread_mutex_t comm_states_lock __attribute__((visibility("hidden")));

/* Whether a job uses the handle. */
static inline bool comm_state_is_busy(comm_state_t state) {
  return state == COMM_CREATING || state == COMM_SPLITTING || state == COMM_FINALIZING;
}

/* COLL_ERROR_INVALID: it is no communicator, or was destroyed already. */
coll_status_t comm_fail_no_handle(const struct coll_comm *comm);

/* The state of a handle: COLL_IN_PROGRESS while a job uses it; COLL_OK if it is a communicator;
 * else why it could not be made. COLL_ERROR_INVALID: it is no handle. */
coll_status_t comm_handle_state(const struct coll_comm *comm);

#endif
