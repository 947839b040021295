/*
 * Results to the last bit: floating-point sums of random numbers are the same on every rank and in
 * every run, with every algorithm. Averages and sums with scalars are exactly what the arithmetic
 * defines.
 */
#include <criterion/criterion.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "harness/party.h"
#include "harness/sample.h"
#include "verify/random.h"

#define COUNT 3001

/* The result of each rank, for all to compare. */
typedef struct board {
  uint64_t hashes[HARNESS_RANKS_MAX];
} board_t;

static uint64_t hash_of(const void *data, size_t bytes) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (size_t i = 0; i < bytes; i++)
    hash = (hash ^ ((const unsigned char *)data)[i]) * 0x100000001b3u;
  return hash;
}

/* Random bits, but no NaN or infinity: the top bits of the exponent are never all set. */
static void fill_random(coll_dtype_t dtype, int rank, void *data, size_t count) {
  size_t bytes = coll_dtype_bytes(dtype);
  uint64_t random = 42 + (uint64_t)rank;
  for (size_t i = 0; i < count; i++) {
    double value = (double)random_below(&random, 2000001) / 1000000.0 - 1.0;
    float single = (float)value;
    uint32_t bits;
    memcpy(&bits, &single, sizeof bits);
    uint16_t top = (uint16_t)(bits >> 16);
    const void *from = dtype == COLL_FLOAT64   ? (const void *)&value
                       : dtype == COLL_FLOAT32 ? (const void *)&single
                                               : (const void *)&top;
    memcpy((char *)data + i * bytes, from, bytes);
  }
}

static int all_hold(const party_rank_t *self, uint64_t hash, const char *algo) {
  board_t *board = harness_board();
  board->hashes[self->rank] = hash;
  harness_barrier();
  for (int rank = 0; rank < self->size; rank++) {
    PARTY_REQUIRE(board->hashes[rank] == hash, "%s: ranks %d and %d hold different bits", algo,
                  self->rank, rank);
  }
  harness_barrier();
  return 0;
}

static int sum_alike(party_rank_t *self, const char *algo, coll_dtype_t dtype, bool coll_memory) {
  size_t bytes = COUNT * coll_dtype_bytes(dtype);
  void *memory = NULL;
  uint64_t first = 0;
  PARTY_OK(coll_comm_algo_set(self->comm, COLL_ALLREDUCE, algo));
  if (coll_memory) {
    PARTY_OK(coll_mem_alloc(COLL_DEVICE_HOST, 2 * bytes, &memory));
  } else {
    memory = malloc(2 * bytes);
  }
  char *in = memory, *out = in + bytes;
  fill_random(dtype, self->rank, in, COUNT);
  for (int run = 0; run < 3; run++) {
    memset(out, 0, bytes);
    PARTY_OK(coll_allreduce(in, out, COUNT, dtype, COLL_SUM, self->comm, NULL));
    uint64_t hash = hash_of(out, bytes);
    if (run == 0) first = hash;
    PARTY_REQUIRE(hash == first, "%s: another run, other bits", algo);
  }
  PARTY_OK(coll_allreduce(in, in, COUNT, dtype, COLL_SUM, self->comm, NULL));
  PARTY_REQUIRE(hash_of(in, bytes) == first, "%s: in place, other bits", algo);
  PARTY_TRY(all_hold(self, first, algo));
  if (coll_memory) {
    PARTY_OK(coll_mem_free(memory));
  } else {
    free(memory);
  }
  return 0;
}

static int sum_by_all(party_rank_t *self) {
  static const coll_dtype_t dtypes[] = {COLL_FLOAT32, COLL_FLOAT64, COLL_BFLOAT16};
  const char *algo;
  for (int i = 0; (algo = coll_algo_name(COLL_ALLREDUCE, i)) != NULL; i++) {
    for (int d = 0; d < 3; d++) {
      PARTY_TRY(sum_alike(self, algo, dtypes[d], false));
      PARTY_TRY(sum_alike(self, algo, dtypes[d], true));
    }
  }
  return 0;
}

Test(bits, are_the_same_on_all_ranks_and_in_all_runs) {
  for (int size = 2; size <= (HARNESS_BUILD == HARNESS_PLAIN ? 6 : 3); size++) {
    PARTY_RUN(size, 30000, sum_by_all, NULL);
  }
}

/* ---- averages -------------------------------------------------------------------------------*/

static int average(party_rank_t *self) {
  int32_t in[3] = {-7 * (self->rank + 1), 5 + self->rank, 1}, out[3], sum[3];
  float real = 1.0f + (float)self->rank, mean;
  PARTY_OK(coll_allreduce(in, out, 3, COLL_INT32, COLL_AVG, self->comm, NULL));
  PARTY_OK(coll_allreduce(in, sum, 3, COLL_INT32, COLL_SUM, self->comm, NULL));
  for (int i = 0; i < 3; i++) {
    PARTY_REQUIRE(out[i] == sum[i] / self->size, "avg of ints is %d, not %d", out[i],
                  sum[i] / self->size);
  }
  PARTY_OK(coll_allreduce(&real, &mean, 1, COLL_FLOAT32, COLL_AVG, self->comm, NULL));
  float expected = (float)(self->size * (self->size + 1) / 2) / (float)self->size;
  PARTY_REQUIRE(mean == expected, "avg is %g, not %g", (double)mean, (double)expected);
  return 0;
}

Test(bits, averages_divide_towards_zero) {
  for (int size = 1; size <= 5; size++) PARTY_RUN(size, 10000, average, NULL);
}

/* ---- sums with scalars ----------------------------------------------------------------------*/

static int scale(party_rank_t *self) {
  enum { COUNT_SMALL = 5, COUNT_LARGE = 30000 };
  static const size_t counts[] = {1, COUNT_SMALL, COUNT_LARGE};
  float scalar = (float)(self->rank + 1);
  int64_t whole = self->rank - 1;
  coll_op_t op, other;
  float *in = malloc(COUNT_LARGE * sizeof *in), *out = malloc(COUNT_LARGE * sizeof *out);
  PARTY_OK(coll_op_create_premul_sum(&scalar, COLL_FLOAT32, COLL_SCALAR_HOST_IMMEDIATE, self->comm,
                                     &op));
  PARTY_OK(coll_op_create_premul_sum(&whole, COLL_INT64, COLL_SCALAR_HOST_IMMEDIATE, self->comm,
                                     &other));
  PARTY_REQUIRE(op != other && op >= COLL_OP_CREATED_MIN, "ops %d and %d", op, other);
  float weights = (float)(self->size * (self->size + 1) / 2);
  for (int c = 0; c < 3; c++) {
    for (size_t i = 0; i < counts[c]; i++) in[i] = (float)(i % 8);
    for (int in_place = 0; in_place < 2; in_place++) {
      float *to = in_place ? in : out;
      PARTY_OK(coll_allreduce(in, to, counts[c], COLL_FLOAT32, op, self->comm, NULL));
      for (size_t i = 0; i < counts[c]; i++) {
        PARTY_REQUIRE(to[i] == weights * (float)(i % 8), "element %zu is %g", i, (double)to[i]);
        PARTY_REQUIRE(in_place || in[i] == (float)(i % 8), "the send buffer was scaled");
      }
    }
  }
  int64_t ones = 10, sum = 0, expected = 0;
  for (int rank = 0; rank < self->size; rank++) expected += 10 * (rank - 1);
  PARTY_OK(coll_reduce(&ones, &sum, 1, COLL_INT64, other, 0, self->comm, NULL));
  PARTY_REQUIRE(self->rank != 0 || sum == expected, "reduce is %lld", (long long)sum);
  PARTY_REQUIRE(
      coll_allreduce(in, out, 1, COLL_FLOAT64, op, self->comm, NULL) == COLL_ERROR_INVALID,
      "a scalar of float32 served for float64");
  PARTY_OK(coll_op_destroy(op, self->comm));
  PARTY_REQUIRE(
      coll_allreduce(in, out, 1, COLL_FLOAT32, op, self->comm, NULL) == COLL_ERROR_INVALID,
      "a destroyed op was used");
  PARTY_REQUIRE(coll_op_destroy(op, self->comm) == COLL_ERROR_INVALID, "destroyed twice");
  PARTY_REQUIRE(coll_op_destroy(COLL_SUM, self->comm) == COLL_ERROR_INVALID, "sum destroyed");
  free(in);
  free(out);
  return 0;
}

Test(bits, sums_take_each_ranks_scalar) {
  for (int size = 1; size <= 4; size++) PARTY_RUN(size, 20000, scale, NULL);
}
