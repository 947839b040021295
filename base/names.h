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
         collective == COLL_REDUCE_SCATTER;
}

/* Returns whether the collective has a root rank. */
bool base_collective_is_rooted(coll_collective_t collective);

/* Finds a collective by name. COLL_ERROR_INVALID: the message suggests the nearest name. */
coll_status_t base_collective_find(const char *name, coll_collective_t *collective);

#endif
