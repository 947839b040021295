/*
 * Entry to the fast path from an API function. The arguments of an earlier call with the same shape
 * were checked; only the buffers must be checked again.
 */
#ifndef API_FASTPATH_H
#define API_FASTPATH_H

#include "api/check.h"
#include "run/fastpath.h"

/* Whether the arguments fit their bit fields in a shape, so that two different requests never have
 * the same shape. */
BASE_INLINE bool api_fits_shape(const api_request_t *request) {
  return (unsigned)request->traits.dtype < COLL_DTYPE_COUNT &&
         (unsigned)request->traits.op < COLL_OP_BUILTIN_COUNT;
}

/* The same result as api_resolve_buffers for nonempty blocks. */
BASE_INLINE bool api_fastpath_in_place(const api_request_t *request) {
  /* if the product overflows, no cache entry has this count */
  size_t block_bytes = request->count * base_dtype_bytes(request->traits.dtype);
  bool at_root = request->traits.root == request->comm->rank;
  return plan_has_blocks(request->traits.collective, at_root, PLAN_INPUT) &
         plan_has_blocks(request->traits.collective, at_root, PLAN_OUTPUT) &
         api_is_in_place(request, block_bytes);
}

/* The cache entry of a call on a live communicator, if the call is valid and may take the fast
 * path; the lock is then held. NULL: the slow path runs the call or reports what is wrong with it;
 * of most large calls that is known before the lock is taken. */
BASE_INLINE comm_cache_entry_t *api_fastpath_lookup(const api_request_t *request) {
  struct coll_comm *comm = request->comm;
  if (!api_fits_shape(request)) return NULL;
  if (request->count > COMM_FASTPATH_BYTES_MAX || !comm_lock_try(comm)) return NULL;
  comm_traits_t traits = request->traits;
  traits.in_place = api_fastpath_in_place(request);
  comm_cache_entry_t *entry = run_fastpath_lookup(comm, comm_shape_make(traits, request->count));
  if (entry != NULL) {
    const api_extent_t extent = {.send = entry->send_bytes, .recv = entry->recv_bytes};
    if (api_buffers_fit(request, traits.in_place, extent)) return entry;
  }
  comm_lock_release(comm);
  return NULL;
}

#endif
