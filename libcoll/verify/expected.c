/*
 * For collectives that only move data, each output chunk must be one leaf. For reductions it must
 * be an expression over every rank's chunk, each exactly once; for allreduce, the same expression
 * on all ranks, unless the plan states any order. The plan states the order of the expression and
 * its rounding (plan_order_t).
 */
#include "verify/expected.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/names.h"

coll_status_t verify_expected_create(const plan_t *plan, verify_values_t *values,
                                     const verify_memory_t *memory, verify_report_t *report,
                                     verify_expected_t *expected) {
  *expected = (verify_expected_t){
      .plan = plan, .values = values, .memory = memory, .report = report, .agreed_rank = -1};
  COLL_TRY(base_alloc((size_t)plan->parts, sizeof *expected->agreed, "results",
                      (void **)&expected->agreed));
  return base_alloc((size_t)plan->shape.size, sizeof *expected->seen, "contributions",
                    (void **)&expected->seen);
}

void verify_expected_free(verify_expected_t *expected) {
  free(expected->agreed);
  free(expected->seen);
  free(expected->stack);
}

typedef struct leaf {
  int32_t rank, chunk;
} leaf_t;

/* For collectives that only move data: the INPUT chunk that belongs in OUTPUT chunk `chunk` of
 * `rank`. For a reduction: the chunk that every rank contributes, as rank 0's. */
static leaf_t origin_of(const plan_t *plan, int32_t rank, int32_t chunk) {
  const plan_shape_t *shape = &plan->shape;
  int32_t parts = plan->parts, block = chunk / parts, part = chunk % parts;
  switch (shape->collective) {
    case COLL_ALLGATHER:
    case COLL_ALLGATHERV:
    case COLL_GATHERV:
    case COLL_GATHER: return (leaf_t){.rank = block, .chunk = part};
    case COLL_BROADCAST: return (leaf_t){.rank = shape->root, .chunk = chunk};
    case COLL_SCATTERV:
    case COLL_SCATTER: return (leaf_t){.rank = shape->root, .chunk = rank * parts + part};
    case COLL_ALLTOALL:
    case COLL_ALLTOALLV: return (leaf_t){.rank = block, .chunk = rank * parts + part};
    case COLL_SENDRECV:
      return (leaf_t){.rank = (rank + shape->size - 1) % shape->size, .chunk = chunk};
    case COLL_REDUCE_SCATTERV:
    case COLL_REDUCE_SCATTER: return (leaf_t){.chunk = rank * parts + chunk};
    case COLL_ALLREDUCE:
    case COLL_REDUCE:
    case COLL_BARRIER:
    case COLL_COLLECTIVE_COUNT: break;
  }
  return (leaf_t){.chunk = chunk};
}

/* "output[2] of rank 1 <verb> rank 0's input[2]<rest>" */
static coll_status_t reject(const verify_expected_t *expected, int32_t rank, int32_t chunk,
                            const char *verb, leaf_t leaf, const char *rest) {
  verify_site_t site = {.rank = rank, .lane = 0, .step = VERIFY_AT_END};
  return verify_reject(expected->plan, expected->report, VERIFY_CONTRIBUTION, site,
                       "output[%d] of rank %d %s rank %d's input[%d]%s", chunk, rank, verb,
                       leaf.rank, leaf.chunk, rest);
}

static coll_status_t check_movement(const verify_expected_t *expected, int32_t rank, int32_t chunk,
                                    verify_value_t value) {
  leaf_t origin = origin_of(expected->plan, rank, chunk);
  if (value == verify_value_leaf(expected->values, origin.rank, origin.chunk)) return COLL_OK;
  char holds[64];
  verify_value_describe(expected->values, value, holds, sizeof holds);
  verify_site_t site = {.rank = rank, .lane = 0, .step = VERIFY_AT_END};
  return verify_reject(expected->plan, expected->report, VERIFY_CONTRIBUTION, site,
                       "output[%d] of rank %d holds %s, where %s requires rank %d's input[%d]",
                       chunk, rank, holds, base_collective_name(expected->plan->shape.collective),
                       origin.rank, origin.chunk);
}

static coll_status_t push(verify_expected_t *expected, size_t *depth, verify_value_t value) {
  COLL_TRY(base_grow((void **)&expected->stack, &expected->stack_capacity, *depth + 1,
                     sizeof *expected->stack, "an expression"));
  expected->stack[(*depth)++] = value;
  return COLL_OK;
}

/* Checks one leaf of a reduction's result. */
static coll_status_t check_contribution(verify_expected_t *expected, int32_t rank, int32_t chunk,
                                        leaf_t leaf) {
  if (leaf.chunk != origin_of(expected->plan, rank, chunk).chunk) {
    return reject(expected, rank, chunk, "holds", leaf, ", which does not belong there");
  }
  if (expected->seen[leaf.rank] == expected->round) {
    return reject(expected, rank, chunk, "holds", leaf, " more than once");
  }
  expected->seen[leaf.rank] = expected->round;
  return COLL_OK;
}

/* Traverses the expression. A repeated contribution ends the traversal, so it visits at most n
 * leaves. */
static coll_status_t check_reduction(verify_expected_t *expected, int32_t rank, int32_t chunk,
                                     verify_value_t value) {
  expected->round++;
  leaf_t leaf = {0};
  size_t depth = 0;
  COLL_TRY(push(expected, &depth, value));
  while (depth > 0) {
    verify_value_t next = expected->stack[--depth];
    if (verify_value_is_leaf(expected->values, next, &leaf.rank, &leaf.chunk)) {
      COLL_TRY(check_contribution(expected, rank, chunk, leaf));
    } else if (next != VERIFY_UNDEFINED) {
      const verify_reduction_t *reduction = verify_value_reduction(expected->values, next);
      for (uint32_t i = 0; i < reduction->count; i++) {
        COLL_TRY(push(expected, &depth, expected->values->operands[reduction->first + i]));
      }
    }
  }
  leaf = origin_of(expected->plan, rank, chunk);
  for (leaf.rank = 0; leaf.rank < expected->plan->shape.size; leaf.rank++) {
    if (expected->seen[leaf.rank] != expected->round) {
      return reject(expected, rank, chunk, "lacks", leaf, "");
    }
  }
  return COLL_OK;
}

static bool is_exact(const verify_expected_t *expected, verify_value_t value) {
  int32_t rank, chunk, size = expected->plan->shape.size;
  if (verify_value_is_leaf(expected->values, value, &rank, &chunk)) return size == 1;
  const verify_reduction_t *reduction = verify_value_reduction(expected->values, value);
  bool exact = reduction->count == (uint32_t)size;
  for (int32_t i = 0; i < size && exact; i++) {
    verify_value_t operand = expected->values->operands[reduction->first + (size_t)i];
    exact = verify_value_is_leaf(expected->values, operand, &rank, &chunk) && rank == i;
  }
  return exact;
}

/* For a reduction with the right contributions: checks that their order and the number of roundings
 * are those that the plan states. */
static coll_status_t check_order(const verify_expected_t *expected, int32_t rank, int32_t chunk,
                                 verify_value_t value) {
  const plan_t *plan = expected->plan;
  verify_ranks_t ranks = verify_value_canonical(expected->values, value);
  bool canonical = ranks.first == 0 && ranks.count == plan->shape.size;
  verify_site_t site = {.rank = rank, .lane = 0, .step = VERIFY_AT_END};
  if (plan->order >= PLAN_ORDER_CANONICAL && !canonical) {
    return verify_reject(plan, expected->report, VERIFY_ORDER, site,
                         "output[%d] of rank %d is not the canonical expression over ranks 0 to "
                         "%d, as the plan states",
                         chunk, rank, plan->shape.size - 1);
  }
  if (plan->order >= PLAN_ORDER_EXACT && !is_exact(expected, value)) {
    return verify_reject(plan, expected->report, VERIFY_ORDER, site,
                         "output[%d] of rank %d is made in more than one reduction, where the plan "
                         "states that it is rounded once",
                         chunk, rank);
  }
  return COLL_OK;
}

/* Allreduce: every later rank must have the same expression as the first rank that ended. */
static coll_status_t check_identical(verify_expected_t *expected, int32_t rank, int32_t chunk,
                                     verify_value_t value) {
  if (value == expected->agreed[chunk]) return COLL_OK;
  COLL_TRY(check_reduction(expected, rank, chunk, value));
  verify_site_t site = {.rank = rank, .lane = 0, .step = VERIFY_AT_END};
  return verify_reject(expected->plan, expected->report, VERIFY_NOT_IDENTICAL, site,
                       "output[%d] of rank %d and of rank %d are reduced in different orders",
                       chunk, rank, expected->agreed_rank);
}

static coll_status_t check_chunk(verify_expected_t *expected, int32_t rank, int32_t chunk) {
  coll_collective_t collective = expected->plan->shape.collective;
  verify_place_t place = {.rank = rank, .buffer = PLAN_OUTPUT, .chunk = chunk};
  verify_value_t value = verify_memory_peek(expected->memory, place);
  if (!base_collective_reduces(collective)) return check_movement(expected, rank, chunk, value);
  bool may_differ = expected->plan->order == PLAN_ORDER_ANY;
  if (collective != COLL_ALLREDUCE || expected->agreed_rank < 0 || may_differ) {
    expected->agreed[chunk] = value;
    COLL_TRY(check_reduction(expected, rank, chunk, value));
    return check_order(expected, rank, chunk, value);
  }
  return check_identical(expected, rank, chunk, value);
}

static coll_status_t check_barrier(const verify_expected_t *expected, int32_t rank,
                                   const verify_view_t *view) {
  const plan_t *plan = expected->plan;
  for (int32_t other = 0; other < plan->shape.size; other++) {
    verify_epoch_t started = {.lane = (uint32_t)(other * plan->lanes), .count = 1};
    if (!verify_view_covers(view, started)) {
      verify_site_t site = {.rank = rank, .lane = 0, .step = VERIFY_AT_END};
      return verify_reject(plan, expected->report, VERIFY_CONTRIBUTION, site,
                           "may leave the barrier before rank %d has entered it", other);
    }
  }
  return COLL_OK;
}

coll_status_t verify_expected_check(verify_expected_t *expected, int32_t rank,
                                    const verify_view_t *view) {
  const plan_t *plan = expected->plan;
  if (plan->shape.collective == COLL_BARRIER) return check_barrier(expected, rank, view);
  int32_t chunks = plan_chunks(plan, rank, PLAN_OUTPUT);
  for (int32_t chunk = 0; chunk < chunks; chunk++) {
    coll_status_t status = check_chunk(expected, rank, chunk);
    const verify_place_t place = {.rank = rank, .buffer = PLAN_OUTPUT, .chunk = chunk};
    verify_site_t writer;
    if (status == COLL_ERROR_INVALID && verify_memory_writer(expected->memory, place, &writer)) {
      verify_set_cause(expected->report, writer);
    }
    COLL_TRY(status);
  }
  if (expected->agreed_rank < 0) expected->agreed_rank = rank;
  return COLL_OK;
}

/* Of the block that the value is a part of: of a reduction, that of any of its operands. */
static int32_t class_of_value(const verify_expected_t *expected, verify_value_t value) {
  int32_t rank, chunk;
  while (!verify_value_is_leaf(expected->values, value, &rank, &chunk)) {
    const verify_reduction_t *reduction = verify_value_reduction(expected->values, value);
    value = expected->values->operands[reduction->first];
    if (value == VERIFY_UNDEFINED) return -1;
  }
  return plan_size_class(expected->plan, rank, PLAN_INPUT, chunk);
}

bool verify_expected_fits(const verify_expected_t *expected, verify_place_t place,
                          verify_value_t value) {
  const plan_t *plan = expected->plan;
  if (base_collective_counts_by_rank(plan->shape.collective)) {
    return value != VERIFY_UNDEFINED &&
           plan_size_class(plan, place.rank, place.buffer, place.chunk) ==
               class_of_value(expected, value);
  }
  if (!base_collective_counts_by_pair(plan->shape.collective)) return true;
  if (place.buffer != PLAN_OUTPUT) return false;
  leaf_t origin = origin_of(plan, place.rank, place.chunk);
  return value == verify_value_leaf(expected->values, origin.rank, origin.chunk);
}
