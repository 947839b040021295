/*
 * What the verbs ask of their arguments before anything is sent: the same few questions, asked of
 * the shape that the plans are built for. They are inline, as a verb knows most answers beforehand,
 * and what is asked is no other's to see, so that it stays in registers meanwhile.
 */
#ifndef API_CHECK_H
#define API_CHECK_H

#include "base/inline.h"
#include "base/memory.h"
#include "base/names.h"
#include "comm/call.h"

/* A verb and its arguments. */
typedef struct api_asked {
  const char *verb;
  comm_call_kind_t kind;
  struct coll_comm *comm;
  comm_traits_t traits; /* a premul-sum's op becomes COMM_PREMUL */
  size_t count;
  const void *send;
  void *recv;
  size_t *blocks; /* of alltoallv, from comm_call_t */
  uint64_t scalar;
} api_asked_t;

BASE_INLINE comm_call_t api_call(const api_asked_t *asked) {
  return (comm_call_t){.kind = asked->kind,
                       .comm = asked->comm,
                       .shape = comm_shape_make(asked->traits, asked->count),
                       .send = asked->send,
                       .recv = asked->recv,
                       .blocks = asked->blocks,
                       .coalesced = NULL,
                       .scalar = asked->scalar};
}

/* COLL_ERROR_INVALID and the sentence: the verb, the rank and what is wrong. */
BASE_COLD coll_status_t api_wrong(const struct coll_comm *comm, const char *verb, const char *what);
BASE_COLD coll_status_t api_wrong_dtype(const struct coll_comm *comm, const char *verb,
                                        coll_dtype_t dtype);
BASE_COLD coll_status_t api_wrong_rank(const struct coll_comm *comm, const char *verb,
                                       const char *what, int rank);
BASE_COLD coll_status_t api_wrong_count(const struct coll_comm *comm, const char *verb,
                                        size_t count, coll_dtype_t dtype);

/* Of an operation that is no built-in; what it scales by. */
BASE_COLD coll_status_t api_check_premul(struct coll_comm *comm, const char *verb, coll_op_t op,
                                         coll_dtype_t dtype, uint64_t *scalar);

/* *block_bytes: of `count` elements; so many blocks as there are ranks still fit memory. */
BASE_INLINE coll_status_t api_check_words(api_asked_t *asked, size_t *block_bytes) {
  struct coll_comm *comm = asked->comm;
  comm_traits_t *traits = &asked->traits;
  size_t element_bytes = base_dtype_bytes(traits->dtype), all_bytes;
  if (element_bytes == 0) return api_wrong_dtype(comm, asked->verb, traits->dtype);
  if (base_collective_reduces(traits->collective) &&
      (unsigned)traits->op >= COLL_OP_BUILTIN_COUNT) {
    uint64_t scalar;
    COLL_TRY(api_check_premul(comm, asked->verb, traits->op, traits->dtype, &scalar));
    asked->scalar = scalar;
    traits->op = COMM_PREMUL;
  }
  if ((unsigned)traits->root >= (unsigned)comm->size) {
    const char *what = asked->kind == COMM_COLLECTIVE ? "root" : "peer";
    return api_wrong_rank(comm, asked->verb, what, traits->root);
  }
  if (!base_size_multiply(asked->count, element_bytes, block_bytes) ||
      !base_size_multiply(*block_bytes, (unsigned)comm->size, &all_bytes) ||
      all_bytes > SIZE_MAX / 2) {
    return api_wrong_count(comm, asked->verb, asked->count, traits->dtype);
  }
  return COLL_OK;
}

/* Whether send is where an in-place call of the collective has it, seen from recv. */
BASE_INLINE bool api_is_in_place(const api_asked_t *asked, size_t block_bytes) {
  uintptr_t send = (uintptr_t)asked->send, recv = (uintptr_t)asked->recv;
  size_t own = (size_t)asked->comm->rank * block_bytes;
  switch (asked->traits.collective) {
    case COLL_ALLREDUCE:
    case COLL_REDUCE:
    case COLL_BROADCAST:
    case COLL_ALLTOALL: return send == recv;
    case COLL_ALLGATHER:
    case COLL_GATHER: return send == recv + own;
    case COLL_REDUCE_SCATTER:
    case COLL_SCATTER: return recv == send + own;
    default: return false;
  }
}

/* Bytes that a collective reads and writes on this rank. */
typedef struct api_extent {
  size_t send, recv;
} api_extent_t;

/* Drops the buffers that this rank has no use for, and finds whether the call is in place. */
BASE_INLINE api_extent_t api_settle_buffers(api_asked_t *asked, size_t block_bytes) {
  const struct coll_comm *comm = asked->comm;
  const plan_shape_t shape = {
      .collective = asked->traits.collective, .size = comm->size, .root = asked->traits.root};
  const api_extent_t extent = {
      .send = (size_t)plan_blocks(&shape, comm->rank, PLAN_INPUT) * block_bytes,
      .recv = (size_t)plan_blocks(&shape, comm->rank, PLAN_OUTPUT) * block_bytes};
  bool sends = extent.send > 0, receives = extent.recv > 0;
  asked->traits.in_place = sends & receives & api_is_in_place(asked, block_bytes);
  asked->send = sends ? asked->send : NULL;
  asked->recv = receives ? asked->recv : NULL;
  return extent;
}

/* Whether those buffers that are needed are there, and in place or apart. */
BASE_INLINE bool api_buffers_fit(const api_asked_t *asked, bool in_place, api_extent_t extent) {
  if (extent.send > 0 && asked->send == NULL) return false;
  if (extent.recv > 0 && asked->recv == NULL) return false;
  return extent.send == 0 || extent.recv == 0 || in_place ||
         !base_overlap(asked->send, extent.send, asked->recv, extent.recv);
}

BASE_INLINE coll_status_t api_check_buffers(const api_asked_t *asked, api_extent_t extent) {
  if (api_buffers_fit(asked, asked->traits.in_place, extent)) return COLL_OK;
  bool no_send = extent.send > 0 && asked->send == NULL;
  bool no_recv = extent.recv > 0 && asked->recv == NULL;
  return api_wrong(asked->comm, asked->verb,
                   no_send   ? "the send buffer is NULL"
                   : no_recv ? "the recv buffer is NULL"
                             : "the send and recv buffers overlap, but not the way coll.h says "
                               "for in place");
}

/* Checks all of a collective's arguments, and settles its buffers. COLL_ERROR_INVALID names the
 * verb, the argument and what is wrong. */
BASE_INLINE coll_status_t api_check_collective(api_asked_t *asked) {
  size_t block_bytes = 0;
  COLL_TRY(comm_check(asked->comm));
  COLL_TRY(api_check_words(asked, &block_bytes));
  return api_check_buffers(asked, api_settle_buffers(asked, block_bytes));
}

/* Those of coll_send and coll_recv. */
coll_status_t api_check_pair(api_asked_t *asked);

/* Those of coll_alltoallv; copies the four arrays to asked->blocks and finds asked->count. */
coll_status_t api_check_alltoallv(api_asked_t *asked, const size_t send_counts[],
                                  const size_t send_displs[], const size_t recv_counts[],
                                  const size_t recv_displs[]);

#endif
