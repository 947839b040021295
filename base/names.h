/* Names of the public enumerators, and the reverse lookup. */
#ifndef BASE_NAMES_H
#define BASE_NAMES_H

#include <coll.h>

#include <stdbool.h>
#include <stddef.h>

/* NULL outside the enumeration. */
const char *base_collective_name(coll_collective_t collective);
const char *base_dtype_name(coll_dtype_t dtype);
const char *base_op_name(coll_op_t op);

/* Size of an element; 0 outside the enumeration. */
static inline size_t base_dtype_bytes(coll_dtype_t dtype) {
  static const unsigned char bytes[COLL_DTYPE_COUNT] = {
      [COLL_INT8] = 1,    [COLL_UINT8] = 1,    [COLL_INT32] = 4,       [COLL_UINT32] = 4,
      [COLL_INT64] = 8,   [COLL_UINT64] = 8,   [COLL_FLOAT16] = 2,     [COLL_FLOAT32] = 4,
      [COLL_FLOAT64] = 8, [COLL_BFLOAT16] = 2, [COLL_FLOAT8_E4M3] = 1, [COLL_FLOAT8_E5M2] = 1,
      [COLL_INT16] = 2,   [COLL_UINT16] = 2,
  };
  return (unsigned)dtype < COLL_DTYPE_COUNT ? bytes[dtype] : 0;
}

/* False outside the enumeration. */
static inline bool base_dtype_is_signed(coll_dtype_t dtype) {
  return dtype == COLL_INT8 || dtype == COLL_INT16 || dtype == COLL_INT32 || dtype == COLL_INT64;
}
static inline bool base_dtype_is_integer(coll_dtype_t dtype) {
  return base_dtype_is_signed(dtype) || dtype == COLL_UINT8 || dtype == COLL_UINT16 ||
         dtype == COLL_UINT32 || dtype == COLL_UINT64;
}

static inline bool base_op_is_bitwise(coll_op_t op) {
  return op >= COLL_BAND && op <= COLL_BXOR;
}
/* Whether elements of the dtype can be reduced with the built-in op. */
static inline bool base_op_takes(coll_op_t op, coll_dtype_t dtype) {
  return !base_op_is_bitwise(op) || base_dtype_is_integer(dtype);
}

static inline bool base_collective_reduces(coll_collective_t collective) {
  return collective == COLL_ALLREDUCE || collective == COLL_REDUCE ||
         collective == COLL_REDUCE_SCATTER || collective == COLL_REDUCE_SCATTERV;
}

/* Whether each rank's block has a size of its own, and all ranks know the sizes of all blocks. */
static inline bool base_collective_counts_by_rank(coll_collective_t collective) {
  return collective == COLL_ALLGATHERV || collective == COLL_REDUCE_SCATTERV;
}

/* Whether blocks have sizes that only the pair of ranks knows that a block goes between. */
static inline bool base_collective_counts_by_pair(coll_collective_t collective) {
  return collective == COLL_ALLTOALLV || collective == COLL_GATHERV || collective == COLL_SCATTERV;
}

/* Whether GPUs carry it out: of those whose blocks differ in size, alltoallv alone. */
static inline bool base_collective_is_on_gpus(coll_collective_t collective) {
  bool uneven =
      base_collective_counts_by_rank(collective) || base_collective_counts_by_pair(collective);
  return !uneven || collective == COLL_ALLTOALLV;
}

/* The collective of equal blocks that one with counts by rank is where they are equal; others:
 * itself. */
static inline coll_collective_t base_collective_even(coll_collective_t collective) {
  switch (collective) {
    case COLL_ALLGATHERV: return COLL_ALLGATHER;
    case COLL_REDUCE_SCATTERV: return COLL_REDUCE_SCATTER;
    default: return collective;
  }
}

/* Returns whether the collective has a root rank. */
bool base_collective_is_rooted(coll_collective_t collective);

/* Finds a collective by name. COLL_ERROR_INVALID: the message suggests the nearest name. */
coll_status_t base_collective_find(const char *name, coll_collective_t *collective);

#endif
