/*
 * What the ranks send, and what must come out. Every element is a pure function of (rank, index,
 * seed), so each rank can check each element of its result without asking anyone. The inputs of a
 * reduction are chosen so that every partial result, in any order and grouping, is exact in the
 * dtype: a correct library has no freedom left, and the check is equality of bits.
 */
#ifndef BENCH_VALUES_H
#define BENCH_VALUES_H

#include <coll.h>

#include <stddef.h>
#include <stdint.h>

/* The reductions of a benchmark: coll_op_t's built-in ones under their own numbers, and two more.
 */
typedef enum bench_op {
  BENCH_PREMUL_SUM = COLL_OP_BUILTIN_COUNT,
  BENCH_OP_COUNT,
  BENCH_MOVE = BENCH_OP_COUNT /* no reduction: the elements are moved bit by bit */
} bench_op_t;

/* The values repeat with this period in the index. A prime, so that a chunk that lands in the wrong
 * place meets other values there. */
#define BENCH_VALUES_PERIOD 16381

typedef struct bench_values {
  coll_dtype_t dtype;
  int op; /* bench_op_t or a built-in coll_op_t */
  int ranks;
  uint64_t seed;
} bench_values_t;

/* Bits of element `index` of what rank `rank` contributes. */
uint64_t bench_values_input(const bench_values_t *values, int rank, size_t index);

/* Bits of that element reduced over all ranks. op is not BENCH_MOVE. */
uint64_t bench_values_result(const bench_values_t *values, size_t index);

/* Bits of rank `rank`'s scalar for BENCH_PREMUL_SUM. */
uint64_t bench_values_scalar(const bench_values_t *values, int rank);

#endif
