/*
 * The scalar of a premul-sum is read when the op is created, or when each call begins.
 */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "device/reference.h"
#include "harness/party.h"

/* Values up to 6 are exact in all types, also scaled and summed over two ranks. */
enum { SIZE = 2, COUNT_MAX = 3000 };

typedef struct bench {
  party_rank_t *self;
  coll_dtype_t dtype;
  size_t count, element_bytes;
  coll_stream_t stream;
  coll_comm_t side; /* its calls delay the stream */
  char *in, *out;   /* [COUNT_MAX] */
} bench_t;

static void store(coll_dtype_t dtype, int value, void *array, size_t index) {
  int64_t whole = value;
  size_t bytes = coll_dtype_bytes(dtype);
  if (reference_is_float(dtype)) {
    reference_encode(dtype, value, array, index);
  } else {
    memcpy((char *)array + index * bytes, &whole, bytes);
  }
}

static coll_status_t sum(const bench_t *b, coll_op_t op, coll_stream_t stream) {
  for (size_t i = 0; i < b->count; i++) {
    store(b->dtype, 1, b->in, i);
    store(b->dtype, 0, b->out, i);
  }
  return coll_allreduce(b->in, b->out, b->count, b->dtype, op, b->self->comm, stream);
}

/* Each rank's scalar was `scalar`. */
static int require_scalar(const bench_t *b, int scalar, const char *when) {
  uint64_t expected = 0;
  store(b->dtype, scalar * SIZE, &expected, 0);
  for (size_t i = 0; i < b->count; i++) {
    PARTY_REQUIRE(memcmp(b->out + i * b->element_bytes, &expected, b->element_bytes) == 0,
                  "%s, %s: element %zu of %zu", coll_dtype_name(b->dtype), when, i, b->count);
  }
  return 0;
}

static int read_at_creation(bench_t *b) {
  coll_comm_t comm = b->self->comm;
  coll_op_t ops[2];
  uint64_t scalar = 0;
  store(b->dtype, 2, &scalar, 0);
  PARTY_OK(coll_op_create_premul_sum(&scalar, b->dtype, COLL_SCALAR_HOST_IMMEDIATE, comm, &ops[0]));
  PARTY_OK(coll_op_create_premul_sum(&scalar, b->dtype, COLL_SCALAR_HOST_IMMEDIATE, comm, &ops[1]));
  store(b->dtype, 3, &scalar, 0);
  for (int i = 0; i < 2; i++) {
    PARTY_OK(sum(b, ops[i], NULL));
    PARTY_TRY(require_scalar(b, 2, "immediate"));
    PARTY_OK(sum(b, ops[i], b->stream));
    PARTY_OK(coll_op_destroy(ops[i], comm)); /* the queued call still has it */
    PARTY_OK(coll_stream_sync(b->stream));
    PARTY_TRY(require_scalar(b, 2, "immediate, on a stream"));
  }
  return 0;
}

/* Rank 0 changes its scalar after it has queued the call, and before the stream reaches the call,
 * which is behind one that rank 1 makes late. Rank 1 changes its own before its call begins. */
static int change_behind_a_queued_call(bench_t *b, char *scalar, coll_op_t op) {
  PARTY_OK(coll_stream_sync(b->stream));
  if (b->self->rank > 0) {
    harness_barrier();
    store(b->dtype, 3, scalar, 0);
  }
  PARTY_OK(coll_barrier(b->side, b->stream));
  PARTY_OK(sum(b, op, b->stream));
  if (b->self->rank == 0) {
    store(b->dtype, 3, scalar, 0);
    harness_barrier();
  }
  PARTY_OK(coll_stream_sync(b->stream));
  return require_scalar(b, 3, "changed behind a queued call");
}

static int read_at_each_call(bench_t *b) {
  coll_op_t op;
  _Alignas(16) char memory[32] = {0}, fresh[16] = {0};
  char *scalar = memory + b->element_bytes;
  PARTY_OK(coll_op_create_premul_sum(scalar, b->dtype, COLL_SCALAR_DEVICE, b->self->comm, &op));
  for (int value = 3; value > 0; value--) {
    store(b->dtype, value, scalar, 0);
    PARTY_OK(sum(b, op, NULL));
    PARTY_TRY(require_scalar(b, value, "changed between calls"));
  }
  PARTY_TRY(change_behind_a_queued_call(b, scalar, op));
  store(b->dtype, 2, fresh, 0);
  PARTY_OK(coll_broadcast(fresh, scalar, 1, b->dtype, 0, b->side, b->stream));
  PARTY_OK(sum(b, op, b->stream));
  PARTY_OK(coll_op_destroy(op, b->self->comm));
  PARTY_OK(coll_stream_sync(b->stream));
  return require_scalar(b, 2, "written by a call before it");
}

/* In a group, when the group's calls begin: behind the work of all streams that they name. */
static int read_when_the_group_begins(bench_t *b) {
  coll_op_t op;
  coll_stream_t other;
  _Alignas(16) char scalar[16] = {0}, fresh[16] = {0};
  int8_t token = 0, sent = 0;
  PARTY_OK(coll_stream_create(&other));
  PARTY_OK(coll_op_create_premul_sum(scalar, b->dtype, COLL_SCALAR_DEVICE, b->self->comm, &op));
  store(b->dtype, 3, fresh, 0);
  PARTY_OK(coll_broadcast(fresh, scalar, 1, b->dtype, 0, b->side, other));
  PARTY_OK(coll_group_start());
  PARTY_OK(sum(b, op, b->stream));
  PARTY_OK(coll_broadcast(&sent, &token, 1, COLL_INT8, 0, b->self->comm, other));
  PARTY_OK(coll_group_end());
  PARTY_OK(coll_stream_sync(b->stream));
  PARTY_TRY(require_scalar(b, 3, "in a group"));
  PARTY_OK(coll_op_destroy(op, b->self->comm));
  PARTY_OK(coll_stream_destroy(other));
  return 0;
}

static int try_all(party_rank_t *self) {
  static const size_t counts[] = {1, 5, COUNT_MAX};
  bench_t b = {.self = self, .in = malloc(8 * COUNT_MAX), .out = malloc(8 * COUNT_MAX)};
  PARTY_OK(coll_stream_create(&b.stream));
  PARTY_OK(coll_comm_split(self->comm, 0, self->rank, NULL, &b.side));
  for (int dtype = 0; dtype < COLL_DTYPE_COUNT; dtype++) {
    b.dtype = (coll_dtype_t)dtype;
    b.element_bytes = coll_dtype_bytes(b.dtype);
    for (int c = 0; c < 3; c++) {
      b.count = counts[c];
      PARTY_TRY(read_at_creation(&b));
      PARTY_TRY(read_at_each_call(&b));
      PARTY_TRY(read_when_the_group_begins(&b));
    }
  }
  PARTY_OK(coll_stream_destroy(b.stream));
  PARTY_OK(coll_comm_destroy(b.side));
  free(b.in);
  free(b.out);
  return 0;
}

Test(premul, scalars_are_read_where_they_reside) {
  PARTY_RUN(SIZE, 30000, try_all, NULL);
}

static int refuse(party_rank_t *self) {
  float scalar = 2;
  coll_op_t op;
  for (int residence = -1; residence <= 2; residence += 3) {
    coll_status_t status = coll_op_create_premul_sum(
        &scalar, COLL_FLOAT32, (coll_scalar_residence_t)residence, self->comm, &op);
    PARTY_REQUIRE(status == COLL_ERROR_INVALID, "residence %d", residence);
    PARTY_REQUIRE(strstr(coll_last_error(self->comm), "residence") != NULL, "it says '%s'",
                  coll_last_error(self->comm));
  }
  PARTY_REQUIRE(coll_op_create_premul_sum(NULL, COLL_FLOAT32, COLL_SCALAR_DEVICE, self->comm,
                                          &op) == COLL_ERROR_INVALID,
                "a scalar without an address");
  return 0;
}

Test(premul, residences_are_checked) {
  PARTY_RUN(1, 10000, refuse, NULL);
}
