/*
 * The input values of all ranks and the correct results. Every element is a pure function of (rank,
 * index, seed), so a rank checks its result without communication. Inputs of reductions are chosen
 * so that every partial result is exact in the dtype, in any order and grouping. A correct library
 * therefore returns exactly these bits, and the check compares bits.
 */
#ifndef BENCH_VALUES_H
#define BENCH_VALUES_H

#include <coll.h>

#include <stddef.h>
#include <stdint.h>

/* The reductions of a benchmark: the built-in ones of coll_op_t under their own numbers, and two
 * more. */
typedef enum bench_op {
  BENCH_PREMUL_SUM = COLL_OP_BUILTIN_COUNT,
  BENCH_OP_COUNT,
  BENCH_OP_NONE = BENCH_OP_COUNT /* no reduction: elements are copied bit by bit */
} bench_op_t;

/* The values repeat with this period in the index. It is a prime, so that a chunk at a wrong offset
 * differs from the expected values. */
#define BENCH_VALUES_PERIOD 16381

typedef struct bench_values {
  coll_dtype_t dtype;
  int op; /* bench_op_t or a built-in coll_op_t */
  int ranks;
  uint64_t seed;
} bench_values_t;

/* Bits of element `index` of the input of rank `rank`. op and dtype can be combined
 * (base_op_takes). */
uint64_t bench_values_input(const bench_values_t *values, int rank, size_t index);

/* Bits of that element reduced over all ranks. op is not BENCH_OP_NONE. */
uint64_t bench_values_result(const bench_values_t *values, size_t index);

/* Bits of rank `rank`'s scalar for BENCH_PREMUL_SUM. */
uint64_t bench_values_scalar(const bench_values_t *values, int rank);

#endif
