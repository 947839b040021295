/*
 * Calls like an earlier one: alone on their communicator, of a shape that is prepared, with nothing
 * to be done beside the run. They go from the verb to the engine, and are made a call and a task
 * only if a peer keeps them waiting.
 */
#ifndef COMM_FASTPATH_H
#define COMM_FASTPATH_H

#include "comm/lock.h"
#include "engine/lane.h"

/* What calls of the shape are carried out with; NULL: they are not like an earlier one, or need
 * more than a run. For the thread whose turn it is. */
BASE_INLINE comm_cache_entry_t *comm_fastpath_lookup(struct coll_comm *comm, comm_shape_t shape) {
  comm_cache_entry_t *prepared = comm_cache_slot(comm->cache, shape);
  return comm_shape_is(prepared->shape, shape) && prepared->repeats ? prepared : NULL;
}

/* The rest of a call that waits for a peer, or whose `status` says what is wrong. */
BASE_APART coll_status_t comm_fastpath_resume(struct coll_comm *comm, comm_cache_entry_t *prepared,
                                              coll_status_t status);

/* The communicator has failed. */
BASE_COLD coll_status_t comm_fastpath_fail(struct coll_comm *comm, comm_cache_entry_t *prepared);

/* The whole call, with what comm_fastpath_lookup has found; by the thread whose turn it is, which
 * it passes on. */
BASE_INLINE coll_status_t comm_fastpath_run(struct coll_comm *comm, comm_cache_entry_t *prepared,
                                            const void *send, void *recv) {
  coll_status_t status;
  if (!comm_is_sound(comm)) return comm_fastpath_fail(comm, prepared);
  uint64_t number = comm_collective_begin(comm, prepared->id, &prepared->call);
  comm->used[comm_traits_of(prepared->shape).collective] = prepared->plan->algo;
  prepared->call.input = send;
  prepared->call.output = recv;
  if (!engine_run_restart(&prepared->run, &prepared->call, &status)) {
    return comm_fastpath_resume(comm, prepared, status);
  }
  flight_complete(comm->local->flight, number + 1);
  comm_lock_release(comm);
  return COLL_OK;
}

#endif
