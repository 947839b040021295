/*
 * Integers: random bits, because integer arithmetic wraps. Products use odd numbers, as a product
 * of random numbers soon becomes 0. For the same reason only one rank, which differs from index to
 * index, has random bits for BAND and BOR; the others have neutral ones. Floats: small integers
 * times a power of two for sums, powers of two for products. The magnitudes depend on the number of
 * ranks, so that no partial result needs more bits than the dtype has. With too many ranks for
 * that, only every stride-th rank contributes a value to an element, and the subset differs from
 * index to index; the other ranks contribute 0 to sums and 1 or -1 to products.
 */
#include "bench/values.h"

#include <assert.h>
#include <math.h>
#include <stdbool.h>

#include "bench/numbers.h"

/* Finalizer of splitmix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators",
 * OOPSLA 2014): every input bit reaches every output bit. */
static uint64_t mix(uint64_t word) {
  word += UINT64_C(0x9e3779b97f4a7c15);
  word = (word ^ word >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
  word = (word ^ word >> 27) * UINT64_C(0x94d049bb133111eb);
  return word ^ word >> 31;
}

/* Two hashes: one of an index, the same for all ranks; one of an index and a rank or rank pair. */
static uint64_t index_hash(const bench_values_t *values, size_t index) {
  return mix(values->seed ^ mix(index % BENCH_VALUES_PERIOD));
}

static uint64_t member_hash(uint64_t hash, int member) {
  return mix(hash + (uint64_t)member * UINT64_C(0xd1342543de82ef95));
}

static uint64_t mask_of(coll_dtype_t dtype) {
  return UINT64_MAX >> (64 - 8 * coll_dtype_bytes(dtype));
}

/* Uniformly distributed in [-bound, bound]. */
static int64_t pick(uint64_t hash, int64_t bound) {
  return (int64_t)(hash % (2 * (uint64_t)bound + 1)) - bound;
}

/* Selects at most `limit` of `count` members for an index: whether this member is selected. */
static bool takes_part(uint64_t hash, int member, int count, int64_t limit) {
  int64_t stride = (count + limit - 1) / limit;
  return ((uint64_t)member + hash) % (uint64_t)stride == 0;
}

/* ---- floats */

/* Integers up to this magnitude are exact in the dtype. */
static int64_t exact_integers(coll_dtype_t dtype) {
  return INT64_C(1) << (bench_format_of(dtype).mantissa_bits + 1);
}

static double scale_of(uint64_t hash) {
  return ldexp(1, (int)(hash >> 40) % 5 - 2);
}

static double sum_term(const bench_values_t *values, uint64_t hash, int rank) {
  int64_t limit = exact_integers(values->dtype);
  uint64_t own = member_hash(hash, rank);
  int64_t term;
  if (values->ranks <= limit) {
    term = pick(own, limit / values->ranks);
  } else {
    term = takes_part(hash, rank, values->ranks, limit) ? (own & 1 ? 1 : -1) : 0;
  }
  return (double)term * scale_of(hash);
}

/* The average to produce: an integer so small that the sum over all ranks and the deviations from
 * the average are exact. *deviation: the largest deviation. */
static int64_t average_of(const bench_values_t *values, uint64_t hash, int64_t *deviation) {
  int64_t limit = exact_integers(values->dtype);
  int64_t bound = limit / (2 * (int64_t)values->ranks);
  *deviation = bound >= 1 ? bound : 1;
  return values->ranks <= limit ? pick(mix(hash), *deviation) : 0;
}

/* The two ranks of a pair deviate from the average by opposite amounts, so the sum divides evenly.
 * The pairs change with the index. With an odd number of ranks, one rank has the average itself. */
static double average_term(const bench_values_t *values, uint64_t hash, int rank) {
  int ranks = values->ranks;
  int64_t bound, average = average_of(values, hash, &bound);
  int place = (int)(((uint64_t)rank + hash) % (uint64_t)ranks);
  int pair = place / 2;
  bool alone = place == ranks - 1 && ranks % 2 == 1;
  int64_t limit = exact_integers(values->dtype);
  int64_t deviation = pick(member_hash(hash, pair), bound);
  if (alone || (ranks > limit && !takes_part(hash, pair, ranks, limit))) deviation = 0;
  return (double)(average + (place % 2 == 0 ? deviation : -deviation)) * scale_of(hash);
}

/* Powers of two, whose products are exact in any order; one rank adds mantissa bits. */
static double product_term(const bench_values_t *values, uint64_t hash, int rank) {
  int64_t limit = bench_format_of(values->dtype).bias - 1;
  uint64_t own = member_hash(hash, rank);
  int exponent = takes_part(hash, rank, values->ranks, limit) ? (int)pick(own, 1) : 0;
  bool owns_mantissa = (uint64_t)rank == (hash >> 20) % (uint64_t)values->ranks;
  double mantissa = owns_mantissa ? 1 + (double)(hash >> 50 & 3) / 4 : 1;
  return ldexp(own >> 63 ? -mantissa : mantissa, exponent);
}

/* Any finite number except zero: +0 and -0 compare equal but differ in bits. */
static double extreme_term(const bench_values_t *values, uint64_t hash, int rank) {
  uint64_t bits = member_hash(hash, rank) & mask_of(values->dtype);
  double value = bench_float_decode(values->dtype, bits);
  return isfinite(value) && value != 0 ? value : 1;
}

static double float_scalar(int rank) {
  static const double scalars[] = {2, 0.5, 1};
  return scalars[rank % 3];
}

static double float_input(const bench_values_t *values, uint64_t hash, int rank) {
  switch (values->op) {
    case COLL_SUM: return sum_term(values, hash, rank);
    case COLL_PROD: return product_term(values, hash, rank);
    case COLL_AVG: return average_term(values, hash, rank);
    case BENCH_PREMUL_SUM: return sum_term(values, hash, rank) / float_scalar(rank);
    default: return extreme_term(values, hash, rank);
  }
}

static double float_result(const bench_values_t *values, uint64_t hash) {
  double result = 0;
  int64_t deviation;
  if (values->op == COLL_AVG) {
    return (double)average_of(values, hash, &deviation) * scale_of(hash);
  }
  for (int rank = 0; rank < values->ranks; rank++) {
    double term = float_input(values, hash, rank);
    switch (values->op) {
      case COLL_SUM: result += term; break;
      case COLL_PROD: result = rank == 0 ? term : result * term; break;
      case COLL_MAX: result = rank == 0 ? term : fmax(result, term); break;
      case COLL_MIN: result = rank == 0 ? term : fmin(result, term); break;
      default: result += term * float_scalar(rank); break;
    }
  }
  return result;
}

/* ---- integers */

static int64_t sign_extend(coll_dtype_t dtype, uint64_t bits) {
  int unused = 64 - 8 * (int)coll_dtype_bytes(dtype);
  return (int64_t)(bits << unused) >> unused;
}

static uint64_t integer_scalar(int rank) {
  return 3 + 2 * (uint64_t)(rank % 7);
}

static uint64_t integer_input(const bench_values_t *values, uint64_t hash, int rank) {
  uint64_t bits = member_hash(hash, rank) & mask_of(values->dtype);
  bool is_random = (uint64_t)rank == (hash >> 20) % (uint64_t)values->ranks;
  switch (values->op) {
    case COLL_PROD: return bits | 1;
    case COLL_BAND: return is_random ? bits : mask_of(values->dtype);
    case COLL_BOR: return is_random ? bits : 0;
    default: return bits;
  }
}

static bool is_less(coll_dtype_t dtype, uint64_t a, uint64_t b) {
  return bench_dtype_is_signed(dtype) ? sign_extend(dtype, a) < sign_extend(dtype, b) : a < b;
}

static uint64_t combine(const bench_values_t *values, uint64_t accumulated, uint64_t term,
                        int rank) {
  bool less = is_less(values->dtype, term, accumulated);
  switch (values->op) {
    case COLL_PROD: return accumulated * term;
    case COLL_MAX: return less ? accumulated : term;
    case COLL_MIN: return less ? term : accumulated;
    case COLL_BAND: return accumulated & term;
    case COLL_BOR: return accumulated | term;
    case COLL_BXOR: return accumulated ^ term;
    case BENCH_PREMUL_SUM: return accumulated + term * integer_scalar(rank);
    default: return accumulated + term;
  }
}

static uint64_t integer_result(const bench_values_t *values, uint64_t hash) {
  uint64_t result = integer_input(values, hash, 0);
  if (values->op == BENCH_PREMUL_SUM) result *= integer_scalar(0);
  for (int rank = 1; rank < values->ranks; rank++) {
    result = combine(values, result, integer_input(values, hash, rank), rank);
  }
  result &= mask_of(values->dtype);
  if (values->op != COLL_AVG) return result;
  if (!bench_dtype_is_signed(values->dtype)) return result / (uint64_t)values->ranks;
  return (uint64_t)(sign_extend(values->dtype, result) / values->ranks);
}

/* ---- public functions */

uint64_t bench_values_input(const bench_values_t *values, int rank, size_t index) {
  uint64_t hash = index_hash(values, index);
  if (values->op == BENCH_OP_NONE) return member_hash(hash, rank) & mask_of(values->dtype);
  if (!bench_dtype_is_float(values->dtype)) return integer_input(values, hash, rank);
  return bench_float_encode(values->dtype, float_input(values, hash, rank));
}

uint64_t bench_values_result(const bench_values_t *values, size_t index) {
  assert(values->op != BENCH_OP_NONE);
  uint64_t hash = index_hash(values, index);
  if (bench_dtype_is_float(values->dtype)) {
    return bench_float_encode(values->dtype, float_result(values, hash));
  }
  return integer_result(values, hash) & mask_of(values->dtype);
}

uint64_t bench_values_scalar(const bench_values_t *values, int rank) {
  if (bench_dtype_is_float(values->dtype)) {
    return bench_float_encode(values->dtype, float_scalar(rank));
  }
  return integer_scalar(rank);
}
