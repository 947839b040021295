/*
 * A verb's short way for calls like an earlier one. What was asked of the earlier one need not be
 * asked again: what is left is where the buffers are.
 */
#ifndef API_FASTPATH_H
#define API_FASTPATH_H

#include "api/check.h"
#include "comm/fastpath.h"

/* Whether the words keep to their places in a shape, so that none can be taken for another. */
BASE_INLINE bool api_fits_shape(const api_asked_t *asked) {
  return (unsigned)asked->traits.dtype < COLL_DTYPE_COUNT &&
         (unsigned)asked->traits.op < COLL_OP_BUILTIN_COUNT;
}

/* As api_settle_buffers comes to, for any block but an empty one. */
BASE_INLINE bool api_fastpath_in_place(const api_asked_t *asked) {
  /* a count so large that this wraps is of no shape that is prepared */
  size_t block_bytes = asked->count * base_dtype_bytes(asked->traits.dtype);
  bool at_root = asked->traits.root == asked->comm->rank;
  return plan_has_blocks(asked->traits.collective, at_root, PLAN_INPUT) &
         plan_has_blocks(asked->traits.collective, at_root, PLAN_OUTPUT) &
         api_is_in_place(asked, block_bytes);
}

/* What the call is carried out with if it is like an earlier one and right, the turn then taken;
 * NULL: it is for the long way, which also knows what is wrong. */
BASE_INLINE comm_cache_entry_t *api_fastpath_lookup(const api_asked_t *asked) {
  struct coll_comm *comm = asked->comm;
  if (!comm_is_live(comm) || !api_fits_shape(asked) || !comm_lock_try(comm)) return NULL;
  comm_traits_t traits = asked->traits;
  traits.in_place = api_fastpath_in_place(asked);
  comm_cache_entry_t *prepared = comm_fastpath_lookup(comm, comm_shape_make(traits, asked->count));
  if (prepared != NULL) {
    const api_extent_t extent = {.send = prepared->send_bytes, .recv = prepared->recv_bytes};
    if (api_buffers_fit(asked, traits.in_place, extent)) return prepared;
  }
  comm_lock_release(comm);
  return NULL;
}

#endif
