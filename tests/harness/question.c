/*
 * Integers take any value and are computed modulo 2^64. For BAND most of their bits are ones, for
 * BOR zeros; the bits of a result of many ranks then differ. Floats take whole numbers and powers
 * of two small enough that no dtype ever rounds them. For AVG all ranks have the same values,
 * because only then the quotient is exact for every number of ranks.
 */
#include "harness/question.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/names.h"
#include "verify/random.h"

/* ---- elements -------------------------------------------------------------------------------*/

typedef union value {
  uint64_t integer;
  double real;
} value_t;

/* To the width of the dtype and back. */
static uint64_t wrap(coll_dtype_t dtype, uint64_t value) {
  int unused = 64 - 8 * (int)base_dtype_bytes(dtype);
  if (!base_dtype_is_signed(dtype)) return value << unused >> unused;
  return (uint64_t)((int64_t)(value << unused) >> unused);
}

/* Bits of a number that the format represents exactly and that is 0 or normal in it. */
static uint32_t narrow_bits(float value, int exponent_bits, int fraction_bits) {
  if (value == 0) return 0;
  uint32_t bits, cut = 23 - (uint32_t)fraction_bits;
  memcpy(&bits, &value, sizeof bits);
  int bias = (1 << (exponent_bits - 1)) - 1, exponent = (int)(bits >> 23 & 0xff) - 127 + bias;
  uint32_t fraction = bits & 0x7fffff, sign = bits >> 31 << (exponent_bits + fraction_bits);
  assert(fraction >> cut << cut == fraction && exponent > 0);
  return sign | (uint32_t)exponent << fraction_bits | fraction >> cut;
}

static void store(coll_dtype_t dtype, value_t value, void *at) {
  float single = (float)value.real;
  uint32_t bits = 0;
  switch (dtype) {
    case COLL_FLOAT32: memcpy(at, &single, sizeof single); return;
    case COLL_FLOAT64: memcpy(at, &value.real, sizeof value.real); return;
    case COLL_FLOAT16: bits = narrow_bits(single, 5, 10); break;
    case COLL_BFLOAT16: bits = narrow_bits(single, 8, 7); break;
    case COLL_FLOAT8_E4M3: bits = narrow_bits(single, 4, 3); break;
    case COLL_FLOAT8_E5M2: bits = narrow_bits(single, 5, 2); break;
    default: memcpy(at, &value.integer, base_dtype_bytes(dtype)); return;
  }
  memcpy(at, &bits,
         base_dtype_bytes(dtype)); /* little-endian, like all machines this is built for */
}

static value_t combine(const question_t *q, value_t a, value_t b) {
  bool real = !base_dtype_is_integer(q->dtype);
  bool less = real                             ? a.real < b.real
              : base_dtype_is_signed(q->dtype) ? (int64_t)a.integer < (int64_t)b.integer
                                               : a.integer < b.integer;
  value_t sum = {.integer = a.integer + b.integer}, product = {.integer = a.integer * b.integer};
  if (real) sum.real = a.real + b.real;
  if (real) product.real = a.real * b.real;
  switch (q->op) {
    case COLL_MIN: return less ? a : b;
    case COLL_MAX: return less ? b : a;
    case COLL_PROD: return product;
    case COLL_BAND: return (value_t){.integer = a.integer & b.integer};
    case COLL_BOR: return (value_t){.integer = a.integer | b.integer};
    case COLL_BXOR: return (value_t){.integer = a.integer ^ b.integer};
    default: return sum;
  }
}

/* Element `index` of the rank's input. */
static value_t input_value(const question_t *q, int rank, size_t index) {
  int source = q->op == COLL_AVG && base_collective_reduces(q->collective) ? 0 : rank;
  uint64_t random = random_mix(q->seed + (uint64_t)source * 0x9e3779b97f4a7c15u + index);
  if (base_dtype_is_integer(q->dtype)) {
    if (q->op == COLL_AVG) random %= 8; /* so that the sum does not wrap */
    if (q->op == COLL_BAND) random |= random_mix(random) | random_mix(random + 1);
    if (q->op == COLL_BOR) random &= random_mix(random) & random_mix(random + 1);
    return (value_t){.integer = wrap(q->dtype, random)};
  }
  static const double factors[] = {1, -1, 2, 0.5};
  if (q->op == COLL_PROD) return (value_t){.real = factors[random % (source < 6 ? 4 : 2)]};
  if (q->op == COLL_AVG) return (value_t){.real = random % 2 == 0 ? 1 : -1};
  if (source >= 8) return (value_t){.real = 0}; /* float8_e5m2 is exact up to 8 */
  return (value_t){.real = (double)(random % 3) - 1};
}

static value_t reduced_value(const question_t *q, size_t index) {
  value_t value = input_value(q, 0, index);
  if (q->op == COLL_AVG) return value;
  for (int rank = 1; rank < q->size; rank++) value = combine(q, value, input_value(q, rank, index));
  if (base_dtype_is_integer(q->dtype)) value.integer = wrap(q->dtype, value.integer);
  return value;
}

/* ---- shapes ---------------------------------------------------------------------------------*/

#define GAP 3 /* elements between blocks */

static size_t uneven_count(const question_t *q, int number) {
  uint64_t random = random_mix(q->seed * 31 + (uint64_t)number);
  switch (random % 4) {
    case 0: return 0;
    case 1: return q->count;
    case 2: return q->count < 3 ? q->count : 3;
    default: return (random >> 8) % (q->count + 1);
  }
}

size_t question_pair_count(const question_t *q, int from, int to) {
  return uneven_count(q, from * QUESTION_RANKS_MAX + to);
}

size_t question_rank_count(const question_t *q, int rank) {
  return q->seed % 3 == 0 ? q->count : uneven_count(q, rank);
}

/* Elements between the blocks of a rank's buffer. */
static size_t gap_of(const question_t *q, int rank) {
  if (q->collective == COLL_ALLTOALLV) return GAP;
  if (q->collective == COLL_REDUCE_SCATTERV || q->seed % 4 < 2) return 0;
  return random_mix(q->seed + (uint64_t)rank) % 2 == 0 ? 0 : GAP;
}

/* Elements of the block that goes from a rank to a rank. */
static size_t moved_count(const question_t *q, int from, int to) {
  switch (q->collective) {
    case COLL_ALLTOALLV: return question_pair_count(q, from, to);
    case COLL_REDUCE_SCATTERV:
    case COLL_SCATTERV: return question_rank_count(q, to);
    default: return question_rank_count(q, from);
  }
}

/* Elements before the block for `to` in the input of `from`, */
static size_t input_displacement(const question_t *q, int from, int to) {
  size_t before = 0;
  for (int peer = 0; peer < to; peer++) before += moved_count(q, from, peer) + gap_of(q, from);
  return before;
}

/* and before that of `from` in the output of `to`. */
static size_t output_displacement(const question_t *q, int to, int from) {
  size_t before = 0;
  for (int peer = 0; peer < from; peer++) before += moved_count(q, peer, to) + gap_of(q, to);
  return before;
}

void question_layout(const question_t *q, int rank, size_t send_counts[], size_t send_displs[],
                     size_t recv_counts[], size_t recv_displs[]) {
  for (int peer = 0; peer < q->size; peer++) {
    send_counts[peer] = moved_count(q, rank, peer);
    recv_counts[peer] = moved_count(q, peer, rank);
    send_displs[peer] = input_displacement(q, rank, peer);
    recv_displs[peer] = output_displacement(q, rank, peer);
  }
}

size_t question_input_elements(const question_t *q, int rank) {
  size_t all = (size_t)q->size * q->count;
  switch (q->collective) {
    case COLL_REDUCE_SCATTER:
    case COLL_ALLTOALL: return all;
    case COLL_BROADCAST: return rank == q->root ? q->count : 0;
    case COLL_SCATTER: return rank == q->root ? all : 0;
    case COLL_BARRIER: return 0;
    case COLL_ALLTOALLV:
    case COLL_REDUCE_SCATTERV: return input_displacement(q, rank, q->size);
    case COLL_SCATTERV: return rank == q->root ? input_displacement(q, rank, q->size) : 0;
    case COLL_ALLGATHERV:
    case COLL_GATHERV: return question_rank_count(q, rank);
    default: return q->count;
  }
}

size_t question_output_elements(const question_t *q, int rank) {
  size_t all = (size_t)q->size * q->count;
  switch (q->collective) {
    case COLL_ALLGATHER:
    case COLL_ALLTOALL: return all;
    case COLL_REDUCE: return rank == q->root ? q->count : 0;
    case COLL_GATHER: return rank == q->root ? all : 0;
    case COLL_BARRIER: return 0;
    case COLL_ALLTOALLV:
    case COLL_ALLGATHERV: return output_displacement(q, rank, q->size);
    case COLL_GATHERV: return rank == q->root ? output_displacement(q, rank, q->size) : 0;
    case COLL_REDUCE_SCATTERV:
    case COLL_SCATTERV: return question_rank_count(q, rank);
    default: return q->count;
  }
}

bool question_in_place(const question_t *q, int rank, ptrdiff_t *offset) {
  ptrdiff_t own = (ptrdiff_t)((size_t)rank * q->count);
  if (question_input_elements(q, rank) == 0 || question_output_elements(q, rank) == 0) return false;
  switch (q->collective) {
    case COLL_ALLREDUCE:
    case COLL_REDUCE:
    case COLL_BROADCAST:
    case COLL_ALLTOALL: *offset = 0; return true;
    case COLL_ALLGATHER:
    case COLL_GATHER: *offset = own; return true;
    case COLL_ALLGATHERV:
    case COLL_GATHERV: *offset = (ptrdiff_t)output_displacement(q, rank, rank); return true;
    case COLL_REDUCE_SCATTERV:
    case COLL_SCATTERV: *offset = -(ptrdiff_t)input_displacement(q, rank, rank); return true;
    case COLL_REDUCE_SCATTER:
    case COLL_SCATTER: *offset = -own; return true;
    default: return false;
  }
}

/* ---- input and output -----------------------------------------------------------------------*/

void question_fill(const question_t *q, int rank, void *input) {
  size_t bytes = base_dtype_bytes(q->dtype), elements = question_input_elements(q, rank);
  for (size_t i = 0; i < elements; i++) {
    store(q->dtype, input_value(q, rank, i), (char *)input + i * bytes);
  }
}

/* Element `index` of a rank's output; false in a gap. */
static bool output_value(const question_t *q, int rank, size_t index, value_t *value) {
  size_t own = (size_t)rank * q->count;
  switch (q->collective) {
    case COLL_ALLREDUCE:
    case COLL_REDUCE: *value = reduced_value(q, index); return true;
    case COLL_REDUCE_SCATTER: *value = reduced_value(q, own + index); return true;
    case COLL_ALLGATHER:
    case COLL_GATHER:
      *value = input_value(q, (int)(index / q->count), index % q->count);
      return true;
    case COLL_BROADCAST: *value = input_value(q, q->root, index); return true;
    case COLL_SCATTER: *value = input_value(q, q->root, own + index); return true;
    case COLL_ALLTOALL:
      *value = input_value(q, (int)(index / q->count), own + index % q->count);
      return true;
    case COLL_SENDRECV: *value = input_value(q, (rank + q->size - 1) % q->size, index); return true;
    case COLL_REDUCE_SCATTERV:
      *value = reduced_value(q, input_displacement(q, rank, rank) + index);
      return true;
    case COLL_SCATTERV:
      *value = input_value(q, q->root, input_displacement(q, q->root, rank) + index);
      return true;
    default: break;
  }
  for (int peer = 0; peer < q->size; peer++) { /* blocks of different sizes */
    size_t count = moved_count(q, peer, rank), gap = gap_of(q, rank);
    size_t before = q->collective == COLL_ALLTOALLV ? input_displacement(q, peer, rank) : 0;
    if (index < count) {
      *value = input_value(q, peer, before + index);
      return true;
    }
    if (index < count + gap) return false;
    index -= count + gap;
  }
  return false;
}

/* Of the size of an element. */
static bool same(const void *a, const void *b, size_t bytes) {
  switch (bytes) {
    case 1: return memcmp(a, b, 1) == 0;
    case 2: return memcmp(a, b, 2) == 0;
    case 4: return memcmp(a, b, 4) == 0;
    default: return memcmp(a, b, 8) == 0;
  }
}

bool question_answered(const question_t *q, int rank, const void *output,
                       char text[QUESTION_TEXT_BYTES]) {
  size_t bytes = base_dtype_bytes(q->dtype), elements = question_output_elements(q, rank);
  for (size_t i = 0; i < elements; i++) {
    value_t value;
    unsigned char expected[8];
    if (!output_value(q, rank, i, &value)) continue;
    store(q->dtype, value, expected);
    if (same((const char *)output + i * bytes, expected, bytes)) continue;
    uint64_t found = 0, right = 0;
    memcpy(&found, (const char *)output + i * bytes, bytes);
    memcpy(&right, expected, bytes);
    snprintf(text, QUESTION_TEXT_BYTES, "rank %d: element %zu of %zu is 0x%llx, not 0x%llx", rank,
             i, elements, (unsigned long long)found, (unsigned long long)right);
    return false;
  }
  return true;
}

void question_describe(const question_t *q, char text[QUESTION_TEXT_BYTES]) {
  snprintf(text, QUESTION_TEXT_BYTES, "%s(%zu %s, %s, root %d) of %d ranks, seed %llu",
           base_collective_name(q->collective), q->count, base_dtype_name(q->dtype),
           base_op_name(q->op), q->root, q->size, (unsigned long long)q->seed);
}
