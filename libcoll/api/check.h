/*
 * What the verbs ask of their arguments before anything is sent: the same few questions, asked of
 * the shape that the plans are built for. They are inline, as a verb knows most answers beforehand,
 * and keep the call to themselves, so that it stays in registers meanwhile.
 */
#ifndef API_CHECK_H
#define API_CHECK_H

#include "base/inline.h"
#include "base/memory.h"
#include "base/names.h"
#include "comm/call.h"

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
BASE_INLINE coll_status_t api_check_words(comm_call_t *call, const char *verb,
                                          size_t *block_bytes) {
  struct coll_comm *comm = call->comm;
  size_t element_bytes = base_dtype_bytes(call->dtype), all_bytes;
  if (element_bytes == 0) return api_wrong_dtype(comm, verb, call->dtype);
  if (base_collective_reduces(call->collective) && (unsigned)call->op >= COLL_OP_BUILTIN_COUNT) {
    uint64_t scalar;
    COLL_TRY(api_check_premul(comm, verb, call->op, call->dtype, &scalar));
    call->scalar = scalar;
  }
  if ((unsigned)call->root >= (unsigned)comm->size) {
    const char *what = call->kind == COMM_COLLECTIVE ? "root" : "peer";
    return api_wrong_rank(comm, verb, what, call->root);
  }
  if (!base_size_multiply(call->count, element_bytes, block_bytes) ||
      !base_size_multiply(*block_bytes, (unsigned)comm->size, &all_bytes) ||
      all_bytes > SIZE_MAX / 2) {
    return api_wrong_count(comm, verb, call->count, call->dtype);
  }
  return COLL_OK;
}

/* Whether send is where an in-place call of the collective has it, seen from recv. */
BASE_INLINE bool api_is_in_place(const comm_call_t *call, size_t block_bytes) {
  uintptr_t send = (uintptr_t)call->send, recv = (uintptr_t)call->recv;
  size_t own = (size_t)call->comm->rank * block_bytes;
  switch (call->collective) {
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

BASE_INLINE bool api_overlap(const void *a, size_t a_bytes, const void *b, size_t b_bytes) {
  uintptr_t first = (uintptr_t)a, second = (uintptr_t)b;
  return first < second + b_bytes && second < first + a_bytes;
}

/* All of a collective's arguments; fills in call->in_place, and drops the buffers that this rank
 * has no use for. COLL_ERROR_INVALID names the verb, the argument and what is wrong. */
BASE_INLINE coll_status_t api_check_collective(comm_call_t *call, const char *verb) {
  struct coll_comm *comm = call->comm;
  size_t block_bytes = 0;
  COLL_TRY(comm_check(comm));
  COLL_TRY(api_check_words(call, verb, &block_bytes));
  const plan_shape_t shape = {
      .collective = call->collective, .size = comm->size, .root = call->root};
  size_t send_bytes = (size_t)plan_blocks(&shape, comm->rank, PLAN_INPUT) * block_bytes;
  size_t recv_bytes = (size_t)plan_blocks(&shape, comm->rank, PLAN_OUTPUT) * block_bytes;
  if (send_bytes == 0) call->send = NULL;
  if (recv_bytes == 0) call->recv = NULL;
  if (send_bytes > 0 && call->send == NULL) {
    return api_wrong(comm, verb, "the send buffer is NULL");
  }
  if (recv_bytes > 0 && call->recv == NULL) {
    return api_wrong(comm, verb, "the recv buffer is NULL");
  }
  if (send_bytes == 0 || recv_bytes == 0) return COLL_OK;
  call->in_place = api_is_in_place(call, block_bytes);
  if (!call->in_place && api_overlap(call->send, send_bytes, call->recv, recv_bytes)) {
    return api_wrong(comm, verb,
                     "the send and recv buffers overlap, but not the way coll.h says for in place");
  }
  return COLL_OK;
}

/* Those of coll_send and coll_recv. */
coll_status_t api_check_pair(comm_call_t *call, const char *verb);

/* Those of coll_alltoallv; copies the four arrays to call->blocks and finds call->count. */
coll_status_t api_check_alltoallv(comm_call_t *call, const size_t send_counts[],
                                  const size_t send_displs[], const size_t recv_counts[],
                                  const size_t recv_displs[]);

#endif
