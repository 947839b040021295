/*
 * The rare checks, and the error texts.
 */
#include "api/check.h"

#include <stdio.h>
#include <string.h>

#include "api/submit.h"
#include "base/alloc.h"
#include "base/names.h"

coll_status_t api_fail(const struct coll_comm *comm, const char *verb, const char *what) {
  return base_fail(COLL_ERROR_INVALID, "coll_%s on rank %d of %d: %s", verb, comm->rank, comm->size,
                   what);
}

coll_status_t api_fail_dtype(const struct coll_comm *comm, const char *verb, coll_dtype_t dtype) {
  char text[80];
  snprintf(text, sizeof text, "dtype %d does not exist", (int)dtype);
  return api_fail(comm, verb, text);
}

coll_status_t api_fail_rank(const struct coll_comm *comm, const char *verb, const char *what,
                            int rank) {
  char text[80];
  snprintf(text, sizeof text, "%s %d is not a rank of 0..%d", what, rank, comm->size - 1);
  return api_fail(comm, verb, text);
}

coll_status_t api_fail_count(const struct coll_comm *comm, const char *verb, size_t count,
                             coll_dtype_t dtype) {
  char text[120];
  snprintf(text, sizeof text, "count %zu of %s on %d ranks is more than memory can hold", count,
           base_dtype_name(dtype), comm->size);
  return api_fail(comm, verb, text);
}

coll_status_t api_fail_op(const struct coll_comm *comm, const char *verb, coll_op_t op,
                          coll_dtype_t dtype) {
  char text[120];
  snprintf(text, sizeof text, "op %s combines the bits of integers, but the dtype is %s",
           base_op_name(op), base_dtype_name(dtype));
  return api_fail(comm, verb, text);
}

coll_status_t api_check_premul(struct coll_comm *comm, const char *verb, coll_op_t op,
                               coll_dtype_t dtype, comm_scalar_t *scalar) {
  char text[120];
  if ((int)op >= 0 && comm_premul_find(comm, op, dtype, scalar)) return COLL_OK;
  snprintf(text, sizeof text, "op %d is no built-in, and no premul-sum of this communicator for %s",
           (int)op, base_dtype_name(dtype));
  return api_fail(comm, verb, text);
}

coll_status_t api_check_pair(api_request_t *request) {
  struct coll_comm *comm = request->comm;
  size_t bytes = 0;
  COLL_TRY(comm_check(comm));
  COLL_TRY(api_check_arguments(request, &bytes));
  if (request->traits.root == comm->rank && !api_group_is_open()) {
    return api_fail(comm, request->verb,
                    "to or from itself a rank communicates inside a group only");
  }
  const void *buffer = request->kind == RUN_SEND ? request->send : request->recv;
  if (request->count > 0 && buffer == NULL)
    return api_fail(comm, request->verb, "the buffer is NULL");
  return COLL_OK;
}

#define BEYOND_MEMORY "a count and displacement reach beyond what memory can hold"

/* Elements up to the end of the last of `size` blocks, added to *elements where that is more, and
 * the largest count likewise. False if the blocks' memory has more bytes than a size_t holds. */
static bool extent_of(const size_t counts[], const size_t displs[], int size, size_t element_bytes,
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

coll_status_t api_check_alltoallv(api_request_t *request, const size_t send_counts[],
                                  const size_t send_displs[], const size_t recv_counts[],
                                  const size_t recv_displs[]) {
  const char *verb = request->verb;
  size_t none = 0;
  COLL_TRY(comm_check(request->comm));
  COLL_TRY(api_check_arguments(request, &none));
  size_t element_bytes = base_dtype_bytes(request->traits.dtype),
         size = (size_t)request->comm->size;
  size_t send_elements = 0, recv_elements = 0;
  int rank = request->comm->rank;
  if (send_counts == NULL || send_displs == NULL || recv_counts == NULL || recv_displs == NULL) {
    return api_fail(request->comm, verb, "an array of counts or displacements is NULL");
  }
  if (!extent_of(send_counts, send_displs, (int)size, element_bytes, &send_elements,
                 &request->count) ||
      !extent_of(recv_counts, recv_displs, (int)size, element_bytes, &recv_elements,
                 &request->count)) {
    return api_fail(request->comm, verb, BEYOND_MEMORY);
  }
  if (send_elements > 0 && request->send == NULL)
    return api_fail(request->comm, verb, "the send buffer is NULL");
  if (recv_elements > 0 && request->recv == NULL)
    return api_fail(request->comm, verb, "the recv buffer is NULL");
  if (send_counts[rank] != recv_counts[rank]) {
    return api_fail(request->comm, verb, API_SELF_DIFFERS);
  }
  if (send_elements > 0 && recv_elements > 0 &&
      base_overlap(request->send, send_elements * element_bytes, request->recv,
                   recv_elements * element_bytes)) {
    return api_fail(request->comm, verb, "the send and recv buffers overlap");
  }
  const size_t *arrays[] = {send_counts, send_displs, recv_counts, recv_displs};
  COLL_TRY(base_alloc(4 * size, sizeof *request->blocks, "alltoallv's counts",
                      (void **)&request->blocks));
  for (size_t i = 0; i < 4; i++) {
    memcpy(request->blocks + i * size, arrays[i], size * sizeof *request->blocks);
  }
  return COLL_OK;
}

coll_status_t api_copy_blocks(api_request_t *request, size_t before, const size_t counts[],
                              const size_t displs[]) {
  size_t size = (size_t)request->comm->size, end = 0;
  COLL_TRY(base_alloc(before + 2 * size, sizeof *request->blocks, "the counts of a call",
                      (void **)&request->blocks));
  size_t *copied = request->blocks + before, *offsets = copied + size;
  for (size_t rank = 0; rank < size; rank++) {
    copied[rank] = counts[rank];
    offsets[rank] = displs != NULL ? displs[rank] : end;
    if (__builtin_add_overflow(end, counts[rank], &end)) {
      return api_fail(request->comm, request->verb, BEYOND_MEMORY);
    }
  }
  return COLL_OK;
}

coll_status_t api_check_blocks(api_request_t *request, const size_t counts[],
                               const size_t offsets[]) {
  const struct coll_comm *comm = request->comm;
  size_t element_bytes = base_dtype_bytes(request->traits.dtype), elements = 0, largest = 0;
  bool gathers = plan_blocks_of(request->traits.collective, PLAN_INPUT) == PLAN_BLOCKS_ONE;
  if (!extent_of(counts, offsets, comm->size, element_bytes, &elements, &largest)) {
    return api_fail(comm, request->verb, BEYOND_MEMORY);
  }
  size_t own = counts[comm->rank] * element_bytes, all = elements * element_bytes;
  const api_extent_t extent = {.send = gathers ? own : all, .recv = gathers ? all : own};
  uintptr_t send = (uintptr_t)request->send, recv = (uintptr_t)request->recv;
  uintptr_t inside = offsets[comm->rank] * element_bytes;
  request->traits.in_place = own > 0 && (gathers ? send == recv + inside : recv == send + inside);
  if (extent.send == 0) request->send = NULL;
  if (extent.recv == 0) request->recv = NULL;
  return api_check_buffers(request, extent);
}
