/* The same few questions for every verb, asked of the shape that the plans are built for. */
#include "api/check.h"

#include <stdio.h>
#include <string.h>

#include "api/submit.h"
#include "base/apart.h"
#include "base/memory.h"
#include "base/names.h"

BASE_COLD static coll_status_t wrong(const comm_call_t *call, const char *what) {
  const char *verb = call->kind == COMM_SEND   ? "send"
                     : call->kind == COMM_RECV ? "recv"
                                               : base_collective_name(call->collective);
  return base_fail(COLL_ERROR_INVALID, "coll_%s on rank %d of %d: %s", verb, call->comm->rank,
                   call->comm->size, what);
}

BASE_COLD static coll_status_t wrong_dtype(const comm_call_t *call) {
  char text[80];
  snprintf(text, sizeof text, "dtype %d does not exist", (int)call->dtype);
  return wrong(call, text);
}

BASE_COLD static coll_status_t wrong_root(const comm_call_t *call) {
  char text[80];
  const char *what = call->kind == COMM_COLLECTIVE ? "root" : "peer";
  snprintf(text, sizeof text, "%s %d is not a rank of 0..%d", what, call->root,
           call->comm->size - 1);
  return wrong(call, text);
}

BASE_COLD static coll_status_t wrong_count(const comm_call_t *call) {
  char text[120];
  snprintf(text, sizeof text, "count %zu of %s on %d ranks is more than memory can hold",
           call->count, base_dtype_name(call->dtype), call->comm->size);
  return wrong(call, text);
}

/* An operation that is no built-in. */
BASE_COLD static coll_status_t check_premul(comm_call_t *call) {
  char text[120];
  if ((int)call->op >= 0 && comm_premul_find(call->comm, call->op, call->dtype, call->scalar)) {
    return COLL_OK;
  }
  snprintf(text, sizeof text, "op %d is no built-in, and no premul-sum of this communicator for %s",
           (int)call->op, base_dtype_name(call->dtype));
  return wrong(call, text);
}

/* *block_bytes: of `count` elements; so many blocks as there are ranks still fit memory. */
static coll_status_t check_words(comm_call_t *call, size_t *block_bytes) {
  unsigned size = (unsigned)call->comm->size;
  size_t element_bytes = base_dtype_bytes(call->dtype), all_bytes;
  if (element_bytes == 0) return wrong_dtype(call);
  if ((unsigned)call->op >= COLL_OP_BUILTIN_COUNT && base_collective_reduces(call->collective)) {
    COLL_TRY(check_premul(call));
  }
  if ((unsigned)call->root >= size) return wrong_root(call);
  if (!base_size_multiply(call->count, element_bytes, block_bytes) ||
      !base_size_multiply(*block_bytes, size, &all_bytes) || all_bytes > SIZE_MAX / 2) {
    return wrong_count(call);
  }
  return COLL_OK;
}

/* Whether send is where an in-place call of the collective has it, seen from recv. */
static bool is_in_place(const comm_call_t *call, size_t block_bytes) {
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

static bool overlap(const void *a, size_t a_bytes, const void *b, size_t b_bytes) {
  uintptr_t first = (uintptr_t)a, second = (uintptr_t)b;
  return first < second + b_bytes && second < first + a_bytes;
}

coll_status_t api_check_collective(comm_call_t *call) {
  size_t block_bytes = 0;
  COLL_TRY(comm_check(call->comm));
  COLL_TRY(check_words(call, &block_bytes));
  const plan_shape_t shape = {
      .collective = call->collective, .size = call->comm->size, .root = call->root};
  size_t send_bytes = (size_t)plan_blocks(&shape, call->comm->rank, PLAN_INPUT) * block_bytes;
  size_t recv_bytes = (size_t)plan_blocks(&shape, call->comm->rank, PLAN_OUTPUT) * block_bytes;
  if (send_bytes == 0) call->send = NULL;
  if (recv_bytes == 0) call->recv = NULL;
  if (send_bytes > 0 && call->send == NULL) return wrong(call, "the send buffer is NULL");
  if (recv_bytes > 0 && call->recv == NULL) return wrong(call, "the recv buffer is NULL");
  if (send_bytes == 0 || recv_bytes == 0) return COLL_OK;
  call->in_place = is_in_place(call, block_bytes);
  if (!call->in_place && overlap(call->send, send_bytes, call->recv, recv_bytes)) {
    return wrong(call,
                 "the send and recv buffers overlap, but not the way coll.h says for in place");
  }
  return COLL_OK;
}

coll_status_t api_check_pair(comm_call_t *call) {
  size_t bytes = 0;
  COLL_TRY(comm_check(call->comm));
  COLL_TRY(check_words(call, &bytes));
  if (call->root == call->comm->rank && !api_group_is_open()) {
    return wrong(call, "to or from itself a rank communicates inside a group only");
  }
  const void *buffer = call->kind == COMM_SEND ? call->send : call->recv;
  if (call->count > 0 && buffer == NULL) return wrong(call, "the buffer is NULL");
  return COLL_OK;
}

/* Elements up to the end of the furthest block, or false when that does not fit a size_t. */
static bool extent(const size_t counts[], const size_t displs[], int size, size_t element_bytes,
                   size_t *elements, size_t *largest) {
  for (int rank = 0; rank < size; rank++) {
    size_t end, bytes;
    if (__builtin_add_overflow(displs[rank], counts[rank], &end) ||
        !base_size_multiply(end, element_bytes, &bytes) || bytes > SIZE_MAX / 2) {
      return false;
    }
    if (counts[rank] > 0 && end > *elements) *elements = end;
    if (counts[rank] > *largest) *largest = counts[rank];
  }
  return true;
}

coll_status_t api_check_alltoallv(comm_call_t *call, const size_t send_counts[],
                                  const size_t send_displs[], const size_t recv_counts[],
                                  const size_t recv_displs[]) {
  size_t none = 0;
  COLL_TRY(comm_check(call->comm));
  COLL_TRY(check_words(call, &none));
  size_t element_bytes = base_dtype_bytes(call->dtype), size = (size_t)call->comm->size;
  size_t send_elements = 0, recv_elements = 0;
  int rank = call->comm->rank;
  if (send_counts == NULL || send_displs == NULL || recv_counts == NULL || recv_displs == NULL) {
    return wrong(call, "an array of counts or displacements is NULL");
  }
  if (!extent(send_counts, send_displs, (int)size, element_bytes, &send_elements, &call->count) ||
      !extent(recv_counts, recv_displs, (int)size, element_bytes, &recv_elements, &call->count)) {
    return wrong(call, "a count and displacement reach beyond what memory can hold");
  }
  if (send_elements > 0 && call->send == NULL) return wrong(call, "the send buffer is NULL");
  if (recv_elements > 0 && call->recv == NULL) return wrong(call, "the recv buffer is NULL");
  if (send_counts[rank] != recv_counts[rank]) {
    return wrong(call, "the counts it sends to and receives from itself differ");
  }
  if (send_elements > 0 && recv_elements > 0 &&
      overlap(call->send, send_elements * element_bytes, call->recv,
              recv_elements * element_bytes)) {
    return wrong(call, "the send and recv buffers overlap");
  }
  const size_t *arrays[] = {send_counts, send_displs, recv_counts, recv_displs};
  COLL_TRY(
      base_alloc(4 * size, sizeof *call->blocks, "alltoallv's counts", (void **)&call->blocks));
  for (size_t i = 0; i < 4; i++) {
    memcpy(call->blocks + i * size, arrays[i], size * sizeof *call->blocks);
  }
  return COLL_OK;
}
