/*
 * Checks of the arguments of API functions, before anything is sent. They use the same plan shapes
 * as the plans. They are inline, because each API function knows most of its arguments at compile
 * time, and the request then stays in registers.
 */
#ifndef API_CHECK_H
#define API_CHECK_H

#include "base/alloc.h"
#include "base/inline.h"
#include "base/names.h"
#include "run/call.h"
#include "run/progress.h"

/* An API function (verb) and its arguments. */
typedef struct api_request {
  const char *verb;
  run_call_kind_t kind;
  struct coll_comm *comm;
  comm_traits_t traits; /* a premul-sum's op becomes COMM_PREMUL */
  size_t count;
  const void *send;
  void *recv;
  size_t *blocks; /* of alltoallv, as in run_call_t */
  comm_scalar_t scalar;
} api_request_t;

BASE_INLINE run_call_t api_call(const api_request_t *request) {
  return (run_call_t){.kind = request->kind,
                      .comm = request->comm,
                      .shape = comm_shape_make(request->traits, request->count),
                      .send = request->send,
                      .recv = request->recv,
                      .blocks = request->blocks,
                      .coalesced = NULL,
                      .scalar = request->scalar};
}

/* Returns `status`; an error is also recorded as the communicator's last error. */
coll_status_t api_record_result(coll_comm_t comm, coll_status_t status);

/* COLL_ERROR_INVALID unless `comm` is a live communicator; also for one in whose call this thread
 * waits while it runs a progress callback: the function would wait for that call. */
coll_status_t api_check_outside(coll_comm_t comm, const char *function);

/* Each returns COLL_ERROR_INVALID and sets an error text that names the verb, the rank and what is
 * wrong. */
BASE_COLD coll_status_t api_fail(const struct coll_comm *comm, const char *verb, const char *what);
BASE_COLD coll_status_t api_fail_dtype(const struct coll_comm *comm, const char *verb,
                                       coll_dtype_t dtype);
BASE_COLD coll_status_t api_fail_rank(const struct coll_comm *comm, const char *verb,
                                      const char *what, int rank);
BASE_COLD coll_status_t api_fail_count(const struct coll_comm *comm, const char *verb, size_t count,
                                       coll_dtype_t dtype);

BASE_COLD coll_status_t api_fail_op(const struct coll_comm *comm, const char *verb, coll_op_t op,
                                    coll_dtype_t dtype);

/* Checks an op that is not built in; sets *scalar to the scalar of the premul-sum. */
BASE_COLD coll_status_t api_check_premul(struct coll_comm *comm, const char *verb, coll_op_t op,
                                         coll_dtype_t dtype, comm_scalar_t *scalar);

/* Checks the op of a reduction; the dtype exists. */
BASE_INLINE coll_status_t api_check_op(api_request_t *request) {
  comm_traits_t *traits = &request->traits;
  if ((unsigned)traits->op < COLL_OP_BUILTIN_COUNT) {
    if (base_op_takes(traits->op, traits->dtype)) return COLL_OK;
    return api_fail_op(request->comm, request->verb, traits->op, traits->dtype);
  }
  comm_scalar_t scalar;
  COLL_TRY(api_check_premul(request->comm, request->verb, traits->op, traits->dtype, &scalar));
  request->scalar = scalar;
  traits->op = COMM_PREMUL;
  return COLL_OK;
}

/* Checks dtype, op, root and count. *block_bytes: size of `count` elements; one such block per rank
 * fits memory. */
BASE_INLINE coll_status_t api_check_arguments(api_request_t *request, size_t *block_bytes) {
  struct coll_comm *comm = request->comm;
  comm_traits_t *traits = &request->traits;
  size_t element_bytes = base_dtype_bytes(traits->dtype), all_bytes;
  if (run_progress_is_inside(comm)) return api_fail(comm, request->verb, COMM_PROGRESS_INSIDE);
  if (element_bytes == 0) return api_fail_dtype(comm, request->verb, traits->dtype);
  if (base_collective_reduces(traits->collective)) COLL_TRY(api_check_op(request));
  if ((unsigned)traits->root >= (unsigned)comm->size) {
    const char *what = request->kind == RUN_COLLECTIVE ? "root" : "peer";
    return api_fail_rank(comm, request->verb, what, traits->root);
  }
  if (!base_size_multiply(request->count, element_bytes, block_bytes) ||
      !base_size_multiply(*block_bytes, (unsigned)comm->size, &all_bytes) ||
      all_bytes > SIZE_MAX / 2) {
    return api_fail_count(comm, request->verb, request->count, traits->dtype);
  }
  return COLL_OK;
}

/* Whether send has the position, relative to recv, that coll.h defines as in place, for blocks of
 * equal size without gaps. */
BASE_INLINE bool api_is_in_place(const api_request_t *request, size_t block_bytes) {
  uintptr_t send = (uintptr_t)request->send, recv = (uintptr_t)request->recv;
  size_t own = (size_t)request->comm->rank * block_bytes;
  switch (request->traits.collective) {
    case COLL_ALLREDUCE:
    case COLL_REDUCE:
    case COLL_BROADCAST:
    case COLL_ALLTOALL: return send == recv;
    case COLL_ALLGATHER:
    case COLL_ALLGATHERV:
    case COLL_GATHERV:
    case COLL_GATHER: return send == recv + own;
    case COLL_REDUCE_SCATTER:
    case COLL_REDUCE_SCATTERV:
    case COLL_SCATTERV:
    case COLL_SCATTER: return recv == send + own;
    default: return false;
  }
}

/* Bytes that a collective reads and writes on this rank. */
typedef struct api_extent {
  size_t send, recv;
} api_extent_t;

/* Sets the buffers that this rank does not use to NULL, and sets traits.in_place. */
BASE_INLINE api_extent_t api_resolve_buffers(api_request_t *request, size_t block_bytes) {
  const struct coll_comm *comm = request->comm;
  const plan_shape_t shape = {
      .collective = request->traits.collective, .size = comm->size, .root = request->traits.root};
  const api_extent_t extent = {
      .send = (size_t)plan_blocks(&shape, comm->rank, PLAN_INPUT) * block_bytes,
      .recv = (size_t)plan_blocks(&shape, comm->rank, PLAN_OUTPUT) * block_bytes};
  bool sends = extent.send > 0, receives = extent.recv > 0;
  request->traits.in_place = sends & receives & api_is_in_place(request, block_bytes);
  request->send = sends ? request->send : NULL;
  request->recv = receives ? request->recv : NULL;
  return extent;
}

/* Whether the needed buffers are not NULL, and are in place or disjoint. */
BASE_INLINE bool api_buffers_fit(const api_request_t *request, bool in_place, api_extent_t extent) {
  if (extent.send > 0 && request->send == NULL) return false;
  if (extent.recv > 0 && request->recv == NULL) return false;
  return extent.send == 0 || extent.recv == 0 || in_place ||
         !base_overlap(request->send, extent.send, request->recv, extent.recv);
}

BASE_INLINE coll_status_t api_check_buffers(const api_request_t *request, api_extent_t extent) {
  if (api_buffers_fit(request, request->traits.in_place, extent)) return COLL_OK;
  bool no_send = extent.send > 0 && request->send == NULL;
  bool no_recv = extent.recv > 0 && request->recv == NULL;
  return api_fail(request->comm, request->verb,
                  no_send   ? "the send buffer is NULL"
                  : no_recv ? "the recv buffer is NULL"
                            : "the send and recv buffers overlap, but not the way coll.h says "
                              "for in place");
}

/* Checks all arguments of a collective and resolves its buffers. COLL_ERROR_INVALID names the verb,
 * the argument and what is wrong. */
BASE_INLINE coll_status_t api_check_collective(api_request_t *request) {
  size_t block_bytes = 0;
  COLL_TRY(comm_check(request->comm));
  COLL_TRY(api_check_arguments(request, &block_bytes));
  return api_check_buffers(request, api_resolve_buffers(request, block_bytes));
}

/* Checks the arguments of coll_send and coll_recv. */
coll_status_t api_check_pair(api_request_t *request);

/* The largest of `size` blocks. *blocks: how they lie. displs NULL: packed. */
BASE_INLINE size_t api_measure_blocks(const size_t counts[], const size_t displs[], int size,
                                      comm_blocks_t *blocks) {
  size_t largest = 0;
  bool equal = true, packed = true;
  for (int rank = 0; rank < size; rank++) {
    equal &= counts[rank] == counts[0];
    packed &= displs == NULL || displs[rank] == (size_t)rank * counts[0];
    largest = counts[rank] > largest ? counts[rank] : largest;
  }
  *blocks = !equal                   ? COMM_BLOCKS_UNEVEN
            : packed || largest == 0 ? COMM_BLOCKS_EVEN
                                     : COMM_BLOCKS_SPREAD;
  return largest;
}

/* Whether all blocks have `count` elements and are adjacent, in the order of ranks. False for NULL
 * counts. */
BASE_INLINE bool api_blocks_are_even(const size_t counts[], const size_t displs[], int size,
                                     size_t count) {
  if (counts == NULL) return false;
  for (int rank = 0; rank < size; rank++) {
    if (counts[rank] != count) return false;
    if (displs != NULL && displs[rank] != (size_t)rank * count) return false;
  }
  return true;
}

/* Copies the counts and displacements of all ranks to request->blocks, behind `before` elements. */
coll_status_t api_copy_blocks(api_request_t *request, size_t before, const size_t counts[],
                              const size_t displs[]);

/* For one buffer of this rank's block alone and one of all blocks, of counts and offsets: sets
 * traits.in_place, and checks the buffers. */
coll_status_t api_check_blocks(api_request_t *request, const size_t counts[],
                               const size_t offsets[]);

#define API_NO_COUNTS "the array of counts is NULL"
#define API_SELF_DIFFERS "the counts it sends to and receives from itself differ"

/* Checks the arguments of coll_alltoallv, copies the four arrays to request->blocks and sets
 * request->count. */
coll_status_t api_check_alltoallv(api_request_t *request, const size_t send_counts[],
                                  const size_t send_displs[], const size_t recv_counts[],
                                  const size_t recv_displs[]);

#endif
