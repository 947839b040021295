/*
 * Symbolic values. A leaf is one rank's INPUT chunk. A reduction is the ordered list of values that
 * one step reduced, which is one rounding. Equal expressions have equal numbers (hash-consing), so
 * comparing two results is a comparison of numbers. Reductions are neither commutative nor
 * associative here, as floating-point arithmetic is not. Each reduction stores whether it is a
 * canonical expression over a run of ranks.
 */
#ifndef VERIFY_VALUES_H
#define VERIFY_VALUES_H

#include <stddef.h>
#include <stdint.h>

#include "plan/plan.h"

typedef uint32_t verify_value_t;

#define VERIFY_UNDEFINED 0 /* the value of memory that was never written */

/* Ranks [first, first + count); count 0: none. */
typedef struct verify_ranks {
  int32_t first, count;
} verify_ranks_t;

typedef struct verify_reduction {
  size_t first; /* operands[first, first + count) */
  uint32_t count;
  verify_ranks_t canonical; /* the ranks of which it is the canonical expression, by the ranks of
                               its leaves */
} verify_reduction_t;

typedef struct verify_values {
  int32_t size;      /* ranks */
  size_t *leaf_base; /* [size + 1]: leaves of rank r are numbered from 1 + leaf_base[r] */
  verify_value_t *operands;
  size_t operand_count, operand_capacity;
  verify_reduction_t *reductions;
  size_t reduction_count, reduction_capacity;
  uint32_t *table; /* open addressing: index of a reduction + 1, or 0 */
  size_t table_size;
} verify_values_t;

coll_status_t verify_values_create(const plan_t *plan, verify_values_t *values);
void verify_values_free(verify_values_t *values);

/* The value of a rank's INPUT chunk when the call started. */
verify_value_t verify_value_leaf(const verify_values_t *values, int32_t rank, int32_t chunk);

/* Whether `value` is a leaf, and which. */
bool verify_value_is_leaf(const verify_values_t *values, verify_value_t value, int32_t *rank,
                          int32_t *chunk);

/* The reduction of `value`, which must be neither undefined nor a leaf. */
const verify_reduction_t *verify_value_reduction(const verify_values_t *values,
                                                 verify_value_t value);

/* The ranks of which `value` is the canonical expression (plan.h), whatever their chunks; count 0
 * if it is not one. */
verify_ranks_t verify_value_canonical(const verify_values_t *values, verify_value_t value);

/* The value of the reduction of operands[0], operands[1], …; a single operand is its own value. */
coll_status_t verify_value_reduce(verify_values_t *values, const verify_value_t operands[],
                                  uint32_t count, verify_value_t *value);

/* "rank 2's input[3]", "nothing that was ever written", "a reduction of 3 values". Returns
 * `text`. */
const char *verify_value_describe(const verify_values_t *values, verify_value_t value, char *text,
                                  size_t bytes);

#endif
