/* Leaves are numbered by arithmetic; reductions are interned in an open-addressing hash table. */
#include "verify/values.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

#define TABLE_MIN 1024 /* a power of two */

coll_status_t verify_values_create(const plan_t *plan, verify_values_t *values) {
  *values = (verify_values_t){.size = plan->shape.size};
  COLL_TRY(base_alloc((size_t)plan->shape.size + 1, sizeof *values->leaf_base, "leaf numbers",
                      (void **)&values->leaf_base));
  for (int32_t rank = 0; rank < plan->shape.size; rank++) {
    values->leaf_base[rank + 1] =
        values->leaf_base[rank] + (size_t)plan_chunks(plan, rank, PLAN_INPUT);
  }
  COLL_TRY(base_alloc(TABLE_MIN, sizeof *values->table, "values", (void **)&values->table));
  values->table_size = TABLE_MIN;
  return COLL_OK;
}

void verify_values_free(verify_values_t *values) {
  free(values->leaf_base);
  free(values->operands);
  free(values->reductions);
  free(values->table);
}

static size_t leaf_count(const verify_values_t *values) {
  return values->leaf_base[values->size];
}

verify_value_t verify_value_leaf(const verify_values_t *values, int32_t rank, int32_t chunk) {
  return (verify_value_t)(1 + values->leaf_base[rank] + (size_t)chunk);
}

bool verify_value_is_leaf(const verify_values_t *values, verify_value_t value, int32_t *rank,
                          int32_t *chunk) {
  if (value == VERIFY_UNDEFINED || value > leaf_count(values)) return false;
  size_t index = value - 1;
  int32_t low = 0, high = values->size;
  while (high - low > 1) {
    int32_t middle = low + (high - low) / 2;
    if (values->leaf_base[middle] <= index) {
      low = middle;
    } else {
      high = middle;
    }
  }
  *rank = low;
  *chunk = (int32_t)(index - values->leaf_base[low]);
  return true;
}

const verify_reduction_t *verify_value_reduction(const verify_values_t *values,
                                                 verify_value_t value) {
  assert(value > leaf_count(values));
  return &values->reductions[value - 1 - leaf_count(values)];
}

static uint64_t hash_operands(const verify_value_t operands[], uint32_t count) {
  uint64_t hash = count;
  for (uint32_t i = 0; i < count; i++) {
    hash = (hash ^ operands[i]) * 0x9e3779b97f4a7c15u;
    hash ^= hash >> 29;
  }
  hash *= 0xbf58476d1ce4e5b9u; /* the table uses the low bits, the products fill the high ones */
  return hash ^ hash >> 32;
}

/* The table slot of this list of operands, or the empty slot to insert it in. */
static uint32_t *slot_of(const verify_values_t *values, const verify_value_t operands[],
                         uint32_t count) {
  size_t mask = values->table_size - 1;
  for (size_t i = hash_operands(operands, count) & mask;; i = (i + 1) & mask) {
    uint32_t entry = values->table[i];
    if (entry == 0) return &values->table[i];
    const verify_reduction_t *reduction = &values->reductions[entry - 1];
    if (reduction->count == count &&
        memcmp(&values->operands[reduction->first], operands, count * sizeof operands[0]) == 0) {
      return &values->table[i];
    }
  }
}

/* Doubles the table before it is half full_peer. */
static coll_status_t keep_sparse(verify_values_t *values) {
  if (values->reduction_count * 2 < values->table_size) return COLL_OK;
  uint32_t *table = NULL;
  COLL_TRY(base_alloc(values->table_size * 2, sizeof *table, "values", (void **)&table));
  free(values->table);
  values->table = table;
  values->table_size *= 2;
  for (size_t i = 0; i < values->reduction_count; i++) {
    const verify_reduction_t *reduction = &values->reductions[i];
    *slot_of(values, &values->operands[reduction->first], reduction->count) = (uint32_t)i + 1;
  }
  return COLL_OK;
}

verify_ranks_t verify_value_canonical(const verify_values_t *values, verify_value_t value) {
  int32_t rank, chunk;
  if (value == VERIFY_UNDEFINED) return (verify_ranks_t){0};
  if (verify_value_is_leaf(values, value, &rank, &chunk)) return (verify_ranks_t){rank, 1};
  return verify_value_reduction(values, value)->canonical;
}

static int32_t power_below(int32_t count) {
  int32_t power = 1;
  while (2 * power < count) power *= 2;
  return power;
}

/* The ranks of which the reduction of the operands is the canonical expression, by its definition.
 * Operands may be canonical expressions over several ranks. */
static verify_ranks_t canonical_of(const verify_values_t *values, const verify_value_t operands[],
                                   int32_t count) {
  if (count == 1) return verify_value_canonical(values, operands[0]);
  int32_t cut = power_below(count);
  verify_ranks_t left = canonical_of(values, operands, cut);
  verify_ranks_t right = canonical_of(values, operands + cut, count - cut);
  bool joined = left.count > 0 && right.count > 0 && left.first + left.count == right.first;
  if (!joined || left.count != power_below(left.count + right.count)) return (verify_ranks_t){0};
  return (verify_ranks_t){left.first, left.count + right.count};
}

coll_status_t verify_value_reduce(verify_values_t *values, const verify_value_t operands[],
                                  uint32_t count, verify_value_t *value) {
  if (count == 1) {
    *value = operands[0];
    return COLL_OK;
  }
  COLL_TRY(keep_sparse(values));
  uint32_t *slot = slot_of(values, operands, count);
  if (*slot == 0) {
    size_t first = values->operand_count, index = values->reduction_count;
    COLL_TRY(base_grow((void **)&values->operands, &values->operand_capacity, first + count,
                       sizeof *values->operands, "operands"));
    COLL_TRY(base_grow((void **)&values->reductions, &values->reduction_capacity, index + 1,
                       sizeof *values->reductions, "values"));
    memcpy(&values->operands[first], operands, count * sizeof operands[0]);
    values->operand_count += count;
    values->reductions[index] = (verify_reduction_t){
        .first = first,
        .count = count,
        .canonical = canonical_of(values, &values->operands[first], (int32_t)count)};
    *slot = (uint32_t)++values->reduction_count;
  }
  *value = (verify_value_t)(leaf_count(values) + *slot);
  return COLL_OK;
}

const char *verify_value_describe(const verify_values_t *values, verify_value_t value, char *text,
                                  size_t bytes) {
  int32_t rank, chunk;
  if (value == VERIFY_UNDEFINED) {
    snprintf(text, bytes, "nothing that was ever written");
  } else if (verify_value_is_leaf(values, value, &rank, &chunk)) {
    snprintf(text, bytes, "rank %d's input[%d]", rank, chunk);
  } else {
    snprintf(text, bytes, "a reduction of %u values", verify_value_reduction(values, value)->count);
  }
  return text;
}
