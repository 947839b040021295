/*
 * A verb's short way for calls like an earlier one. What was asked of the earlier one need not be
 * asked again: what is left is where the buffers are.
 */
#ifndef API_REPEAT_H
#define API_REPEAT_H

#include "api/check.h"
#include "comm/repeat.h"

/* Of a block: what larger ones take has little to do with their calls. */
#define API_REPEAT_BYTES_MOST 16384

/* Whether the words keep to their places in a shape, so that none can be taken for another. */
BASE_INLINE bool api_words_fit(const api_asked_t *asked) {
  return (unsigned)asked->traits.dtype < COLL_DTYPE_COUNT &&
         (unsigned)asked->traits.op < COLL_OP_BUILTIN_COUNT;
}

/* What the call is carried out with if it is like an earlier one and right, with its buffers then
 * settled and the turn *ticket; NULL: it is for the long way, which also knows what is wrong. */
BASE_INLINE comm_prepared_t *api_repeat_find(api_asked_t *asked, uint64_t *ticket) {
  struct coll_comm *comm = asked->comm;
  if (!comm_is_live(comm) || !api_words_fit(asked)) return NULL;
  /* a count so large that this wraps is of no shape that is prepared */
  size_t block_bytes = asked->count * base_dtype_bytes(asked->traits.dtype);
  if (block_bytes > API_REPEAT_BYTES_MOST || !comm_turn_try(comm, ticket)) return NULL;
  const api_extent_t extent = api_settle_buffers(asked, block_bytes);
  const comm_shape_t shape = comm_shape_make(asked->traits, asked->count);
  comm_prepared_t *prepared = comm_repeat_find(comm, shape);
  if (prepared != NULL && api_buffers_fit(asked, extent)) return prepared;
  comm_turn_pass(comm, *ticket);
  return NULL;
}

#endif
