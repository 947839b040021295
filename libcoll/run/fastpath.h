/*
 * Fast path for a call whose plan cache entry is bound and which needs nothing but the engine run.
 * It runs the engine directly from the API function, without a batch or task. If a peer is not
 * ready, the call is converted into a task (run/task.h).
 */
#ifndef RUN_FASTPATH_H
#define RUN_FASTPATH_H

#include "comm/lock.h"
#include "engine/lane.h"

/* The entry for calls of this shape if they may take the fast path, else NULL. The caller holds the
 * lock. */
BASE_INLINE comm_cache_entry_t *run_fastpath_lookup(struct coll_comm *comm, comm_shape_t shape) {
  comm_cache_entry_t *entry = comm_cache_slot(comm->plans.cache, shape);
  bool is_fast = entry->fast_traits == shape.traits && entry->shape.count == shape.count;
  return is_fast ? entry : NULL;
}

/* Continues a call that waits for a peer, or that failed with `status`, on the slow path. */
BASE_APART coll_status_t run_fastpath_resume(struct coll_comm *comm, comm_cache_entry_t *entry,
                                             coll_status_t status);

/* For a communicator that has failed: returns the failure. */
BASE_COLD coll_status_t run_fastpath_fail(struct coll_comm *comm, comm_cache_entry_t *entry);

/* Runs the whole call with the entry from run_fastpath_lookup. The caller holds the lock; it is
 * released. */
BASE_INLINE coll_status_t run_fastpath_run(struct coll_comm *comm, comm_cache_entry_t *entry,
                                           const void *send, void *recv) {
  coll_status_t status;
  if (!comm_is_usable(comm)) return run_fastpath_fail(comm, entry);
  uint64_t number = comm_collective_begin(comm, entry->id, &entry->call);
  entry->call.id.count += entry->call.pair_count;
  comm->plans.used[comm_traits_of(entry->shape).collective] = entry->plan->algo;
  entry->call.input = send;
  entry->call.output = recv;
  if (!engine_run_restart(&entry->run, &entry->call, &status)) {
    return run_fastpath_resume(comm, entry, status);
  }
  flight_complete(comm->local->flight, number + 1);
  comm_lock_release(comm);
  return COLL_OK;
}

#endif
