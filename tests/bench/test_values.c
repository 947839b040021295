/* Compares the expected results with a slow reduction that rounds after every step, in several
 * orders and groupings. Each step must be exact. */
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "base/names.h"
#include "bench/numbers.h"
#include "bench/values.h"

#define RANKS_MAX 100
#define INDICES 600

static const int rank_counts[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 16, 17, 33, 64, RANKS_MAX};

enum { RANK_COUNTS = sizeof rank_counts / sizeof rank_counts[0] };

static bool is_product(const bench_values_t *values) {
  return values->op == COLL_PROD;
}

/* One reduction step in the dtype; rounding must not change its result. */
static double float_step(const bench_values_t *values, double a, double b) {
  double exact = is_product(values)       ? a * b
                 : values->op == COLL_MAX ? (a > b ? a : b)
                 : values->op == COLL_MIN ? (a < b ? a : b)
                                          : a + b;
  double rounded = bench_float_decode(values->dtype, bench_float_encode(values->dtype, exact));
  cr_assert_eq(rounded, exact, "%s op %d, %d ranks: %.17g is not representable",
               coll_dtype_name(values->dtype), values->op, values->ranks, exact);
  return exact;
}

static double float_term(const bench_values_t *values, int rank, size_t index) {
  double term = bench_float_decode(values->dtype, bench_values_input(values, rank, index));
  if (values->op != BENCH_PREMUL_SUM) return term;
  return term * bench_float_decode(values->dtype, bench_values_scalar(values, rank));
}

/* order 0: ascending; 1: descending; 2: even ranks, then odd ones; 3: a tree. */
static double float_reduce(const bench_values_t *values, size_t index, int order) {
  double terms[RANKS_MAX] = {0};
  int n = values->ranks;
  for (int i = 0; i < n; i++) {
    int even = (n + 1) / 2;
    int rank = order == 1 ? n - 1 - i : order != 2 ? i : i < even ? 2 * i : 2 * (i - even) + 1;
    terms[i] = float_term(values, rank, index);
  }
  if (order == 3) {
    for (int gap = 1; gap < n; gap *= 2) {
      for (int i = 0; i + gap < n; i += 2 * gap) {
        terms[i] = float_step(values, terms[i], terms[i + gap]);
      }
    }
  } else {
    for (int i = 1; i < n; i++) terms[0] = float_step(values, terms[0], terms[i]);
  }
  return values->op == COLL_AVG ? terms[0] / n : terms[0];
}

static void check_float(const bench_values_t *values, int order) {
  bool all_equal = true;
  for (size_t index = 0; index < INDICES; index++) {
    double expected = float_reduce(values, index, order);
    uint64_t bits = bench_values_result(values, index);
    cr_assert_eq(bench_float_decode(values->dtype, bits), expected,
                 "%s op %d, %d ranks, index %zu: %.17g, not %.17g", coll_dtype_name(values->dtype),
                 values->op, values->ranks, index, bench_float_decode(values->dtype, bits),
                 expected);
    cr_assert(expected != 0 || bits == 0, "zeros are positive");
    if (bits != bench_values_result(values, 0)) all_equal = false;
  }
  /* With too many ranks for the dtype, the only exact average is 0. */
  bool may_be_flat = values->op == COLL_AVG && values->ranks > 8;
  cr_assert(!all_equal || may_be_flat, "%s op %d, %d ranks: all results are equal",
            coll_dtype_name(values->dtype), values->op, values->ranks);
}

Test(values, floats_are_exact_in_every_order) {
  for (int dtype = 0; dtype < COLL_DTYPE_COUNT; dtype++) {
    if (!bench_dtype_is_float((coll_dtype_t)dtype)) continue;
    for (int op = 0; op < BENCH_OP_COUNT; op++) {
      if (base_op_is_bitwise((coll_op_t)op)) continue;
      for (size_t r = 0; r < RANK_COUNTS; r++) {
        bench_values_t values = {(coll_dtype_t)dtype, op, rank_counts[r], 7};
        for (int order = 0; order < 4; order++) check_float(&values, order);
      }
    }
  }
}

/* The same arithmetic in the C type. */
#define DEFINE_REFERENCE(type, name)                                               \
  static uint64_t reduce_##name(const bench_values_t *values, size_t index) {      \
    type result = 0;                                                               \
    for (int rank = 0; rank < values->ranks; rank++) {                             \
      type term = (type)bench_values_input(values, rank, index);                   \
      type scalar = (type)bench_values_scalar(values, rank);                       \
      switch (values->op) {                                                        \
        case COLL_PROD:                                                            \
          result = rank == 0 ? term : (type)((uint64_t)result * (uint64_t)term);   \
          break;                                                                   \
        case COLL_MAX: result = rank == 0 || term > result ? term : result; break; \
        case COLL_MIN: result = rank == 0 || term < result ? term : result; break; \
        case COLL_BAND: result = rank == 0 ? term : (type)(result & term); break;  \
        case COLL_BOR: result = (type)(result | term); break;                      \
        case COLL_BXOR: result = (type)(result ^ term); break;                     \
        case BENCH_PREMUL_SUM:                                                     \
          result = (type)((uint64_t)result + (uint64_t)term * (uint64_t)scalar);   \
          break;                                                                   \
        default: result = (type)((uint64_t)result + (uint64_t)term); break;        \
      }                                                                            \
    }                                                                              \
    if (values->op == COLL_AVG) result = (type)(result / (type)values->ranks);     \
    uint64_t bits = 0;                                                             \
    memcpy(&bits, &result, sizeof result);                                         \
    return bits;                                                                   \
  }

DEFINE_REFERENCE(int8_t, int8)
DEFINE_REFERENCE(uint8_t, uint8)
DEFINE_REFERENCE(int16_t, int16)
DEFINE_REFERENCE(uint16_t, uint16)
DEFINE_REFERENCE(int32_t, int32)
DEFINE_REFERENCE(uint32_t, uint32)
DEFINE_REFERENCE(int64_t, int64)
DEFINE_REFERENCE(uint64_t, uint64)

Test(values, integers_wrap_as_the_type_does) {
  static uint64_t (*const references[])(const bench_values_t *, size_t) = {
      [COLL_INT8] = reduce_int8,     [COLL_UINT8] = reduce_uint8,  [COLL_INT16] = reduce_int16,
      [COLL_UINT16] = reduce_uint16, [COLL_INT32] = reduce_int32,  [COLL_UINT32] = reduce_uint32,
      [COLL_INT64] = reduce_int64,   [COLL_UINT64] = reduce_uint64};
  for (int dtype = 0; dtype < COLL_DTYPE_COUNT; dtype++) {
    if (bench_dtype_is_float((coll_dtype_t)dtype)) continue;
    for (int op = 0; op < BENCH_OP_COUNT; op++) {
      for (size_t r = 0; r < RANK_COUNTS; r++) {
        bench_values_t values = {(coll_dtype_t)dtype, op, rank_counts[r], 3};
        for (size_t index = 0; index < INDICES; index++) {
          cr_assert_eq(bench_values_result(&values, index), references[dtype](&values, index),
                       "%s op %d, %d ranks, index %zu", coll_dtype_name(values.dtype), op,
                       values.ranks, index);
        }
      }
    }
  }
}

/* A result that lacks the input of a rank, or has it twice, must differ in some elements. */
Test(values, a_missing_or_doubled_input_changes_the_result) {
  static const int ops[] = {COLL_SUM, COLL_PROD, COLL_AVG, BENCH_PREMUL_SUM};
  for (int dtype = 0; dtype < COLL_DTYPE_COUNT; dtype++) {
    if (!bench_dtype_is_float((coll_dtype_t)dtype)) continue;
    for (size_t o = 0; o < sizeof ops / sizeof ops[0]; o++) {
      for (int ranks = 1; ranks <= 8; ranks++) {
        bench_values_t values = {(coll_dtype_t)dtype, ops[o], ranks, 5};
        double neutral = ops[o] == COLL_PROD ? 1 : 0;
        for (int rank = 0; rank < ranks; rank++) {
          int changed = 0;
          for (size_t index = 0; index < INDICES; index++) {
            changed += float_term(&values, rank, index) != neutral;
          }
          cr_assert_gt(changed, INDICES / 8, "%s op %d, rank %d of %d changes %d elements",
                       coll_dtype_name(values.dtype), values.op, rank, ranks, changed);
        }
      }
    }
  }
}

/* Each rank decides some elements of a bitwise result, and all of an exclusive or. */
Test(values, a_missing_input_changes_a_bitwise_result) {
  for (int op = COLL_BAND; op <= COLL_BXOR; op++) {
    for (int ranks = 1; ranks <= 8; ranks++) {
      bench_values_t values = {COLL_UINT16, op, ranks, 5};
      for (int rank = 0; rank < ranks; rank++) {
        uint64_t neutral = op == COLL_BAND ? UINT16_MAX : 0;
        int decided = 0;
        for (size_t index = 0; index < INDICES; index++) {
          decided += bench_values_input(&values, rank, index) != neutral;
        }
        cr_assert_gt(decided, op == COLL_BXOR ? INDICES * 9 / 10 : INDICES / ranks / 2,
                     "op %d, rank %d of %d decides %d elements", op, rank, ranks, decided);
      }
    }
  }
}

Test(values, inputs_depend_on_rank_index_and_seed) {
  for (int dtype = 0; dtype < COLL_DTYPE_COUNT; dtype++) {
    bench_values_t values = {(coll_dtype_t)dtype, BENCH_OP_NONE, 8, 1}, other = values;
    other.seed = 2;
    int by_rank = 0, by_index = 0, by_seed = 0;
    for (size_t index = 0; index < INDICES; index++) {
      uint64_t bits = bench_values_input(&values, 3, index);
      by_rank += bits != bench_values_input(&values, 4, index);
      by_index += bits != bench_values_input(&values, 3, index + 1);
      by_seed += bits != bench_values_input(&other, 3, index);
    }
    cr_assert(by_rank > INDICES * 9 / 10 && by_index > INDICES * 9 / 10 &&
              by_seed > INDICES * 9 / 10);
  }
}

Test(values, repeat_with_the_period) {
  bench_values_t values = {COLL_FLOAT32, COLL_SUM, 4, 1};
  cr_assert_eq(bench_values_input(&values, 1, 5),
               bench_values_input(&values, 1, BENCH_VALUES_PERIOD + 5));
  cr_assert_eq(bench_values_result(&values, 5),
               bench_values_result(&values, BENCH_VALUES_PERIOD + 5));
}
