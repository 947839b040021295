/*
 * The plan cache of a communicator: finds the plan for a call, and chooses and builds it on a miss.
 */
#ifndef COMM_PLAN_CACHE_H
#define COMM_PLAN_CACHE_H

#include "comm/comm.h"

/* Frees the cached plans and the plan cache entries. */
void comm_plans_free(struct coll_comm *comm);

BASE_COLD coll_status_t comm_cache_miss(struct coll_comm *comm, comm_shape_t shape,
                                        comm_cache_entry_t *entry);

/* Finds the plan cache entry for calls of this shape. The caller fills in the buffers of
 * entry->call; the engine binds entry->run. The entry is valid until the next lookup. */
BASE_INLINE coll_status_t comm_cache_lookup(struct coll_comm *comm, comm_shape_t shape,
                                            comm_cache_entry_t **entry) {
  comm_cache_entry_t *slot = comm_cache_slot(comm->plans.cache, shape);
  if (!comm_shape_is(slot->shape, shape)) COLL_TRY(comm_cache_miss(comm, shape, slot));
  comm->plans.used[comm_traits_of(shape).collective] = slot->plan->algo;
  *entry = slot;
  return COLL_OK;
}

/* The plan of an algorithm, found in the cache or built. The caller holds the lock. */
coll_status_t comm_plan_get(struct coll_comm *comm, const algo_t *algo, int root, bool in_place,
                            const comm_plan_t **plan);

/* The identity of a collective, as call 0, without history. */
flight_call_t comm_identity_of(const struct coll_comm *comm, const comm_traits_t *traits,
                               size_t count);

/* Forces an algorithm, by its name, for the calls it supports; NULL: the tuner chooses. No loaded
 * plan (loaded.h) is used any more. */
void comm_force(struct coll_comm *comm, coll_collective_t collective, const char *algo);

/* The reach that all ranks expect the memory of the current call (`bytes` per block) to allow: what
 * a recent exchange for this size class found, or USER if there is none or an algorithm is forced.
 * comm_note_reach records that the exchange of the current call found less than that. */
plan_reach_t comm_expected_reach(struct coll_comm *comm, coll_collective_t collective,
                                 size_t bytes);
void comm_note_reach(struct coll_comm *comm, coll_collective_t collective, size_t bytes,
                     plan_reach_t reach);

/* The estimated time of the index-th algorithm for such a call (op sum if it reduces), with the
 * same rules as comm_cache_lookup, and whether it is the chosen one. COLL_ERROR_INVALID past the
 * last algorithm. */
coll_status_t comm_estimate(struct coll_comm *comm, coll_collective_t collective, size_t bytes,
                            coll_dtype_t dtype, plan_reach_t reach, int index,
                            tune_estimate_t *estimate, bool *chosen);

#endif
