/*
 * The memory of each rank before, during and after its call, and the result that the call must
 * give.
 */
#include <string.h>

#include "brute_state.h"
#include "random.h"

/* Offset of INPUT from OUTPUT in an in-place call, by the pointers that coll.h requires; false
 * where the collective has no in-place form for this rank. */
static bool in_place_distance(const plan_t *plan, int32_t rank, int32_t *distance) {
  int32_t own = rank * plan->parts;
  bool is_root = rank == plan->shape.root;
  switch (plan->shape.collective) {
    case COLL_ALLREDUCE:
    case COLL_ALLTOALL: *distance = 0; return true;
    case COLL_REDUCE:
    case COLL_BROADCAST: *distance = 0; return is_root;
    case COLL_ALLGATHER:
    case COLL_ALLGATHERV: *distance = own; return true;
    case COLL_GATHER:
    case COLL_GATHERV: *distance = own; return is_root;
    case COLL_REDUCE_SCATTER:
    case COLL_REDUCE_SCATTERV: *distance = -own; return true;
    case COLL_SCATTER:
    case COLL_SCATTERV: *distance = -own; return is_root;
    default: return false;
  }
}

void brute_lay_out(brute_t *brute) {
  const plan_t *plan = brute->plan;
  size_t next = 0;
  for (int32_t rank = 0; rank < brute->ranks; rank++) {
    size_t inputs = (size_t)plan_chunks(plan, rank, PLAN_INPUT);
    size_t outputs = (size_t)plan_chunks(plan, rank, PLAN_OUTPUT);
    int32_t distance = 0;
    size_t *offset = brute->offset[rank];
    brute->extent[rank][0] = next;
    if (plan->programs[rank].in_place && in_place_distance(plan, rank, &distance)) {
      offset[PLAN_OUTPUT] = next + (size_t)(distance < 0 ? -distance : 0);
      offset[PLAN_INPUT] = next + (size_t)(distance > 0 ? distance : 0);
      next += inputs > outputs ? inputs : outputs;
    } else {
      offset[PLAN_INPUT] = next;
      offset[PLAN_OUTPUT] = next + inputs;
      next += inputs + outputs;
    }
    offset[PLAN_SCRATCH] = next;
    next += (size_t)plan->scratch_chunks;
    brute->extent[rank][1] = next;
  }
  brute->cells = next;
}

brute_number_t *brute_cell(brute_t *brute, int32_t rank, plan_buffer_t buffer, int32_t chunk) {
  return &brute->memory[brute->offset[rank][buffer] + (size_t)chunk];
}

brute_number_t *brute_span_cell(brute_t *brute, const plan_span_t *span, int32_t index) {
  return brute_cell(brute, span->rank, span->buffer, span->first + index);
}

static brute_number_t poison_of(const brute_t *brute, size_t index, brute_call_t call) {
  uint64_t bits = random_mix(brute->poison + index * 4 + (uint64_t)call + 1);
  return (brute_number_t){.sum = bits, .hash = ~bits, .rounded = ~bits};
}

void brute_poison_rank(brute_t *brute, int32_t rank, brute_call_t call) {
  for (size_t i = brute->extent[rank][0]; i < brute->extent[rank][1]; i++) {
    brute->memory[i] = poison_of(brute, i, call);
  }
}

void brute_check_poison(brute_t *brute, int32_t rank, brute_call_t call) {
  for (size_t i = brute->extent[rank][0]; i < brute->extent[rank][1]; i++) {
    brute_number_t poison = poison_of(brute, i, call);
    if (memcmp(&brute->memory[i], &poison, sizeof poison) != 0) brute->fault = BRUTE_TRESPASS;
  }
}

static brute_number_t leaf(int32_t rank, int32_t chunk) {
  uint64_t bits = random_mix(((uint64_t)rank << 32 | (uint64_t)chunk) + 0x1234567);
  return (brute_number_t){.sum = bits, .hash = random_mix(bits), .rounded = random_mix(bits)};
}

static bool same(brute_number_t a, brute_number_t b) {
  return a.sum == b.sum && a.hash == b.hash;
}

brute_number_t brute_combine(brute_number_t a, brute_number_t b) {
  return (brute_number_t){.sum = a.sum + b.sum,
                          .hash = random_mix(a.hash * 3 + b.hash),
                          .rounded = random_mix(a.rounded * 3 + b.rounded)};
}

brute_number_t brute_rounded(brute_number_t number) {
  number.rounded = random_mix(number.rounded + 1);
  return number;
}

/* The value of the canonical expression over the chunk of ranks [first, first + count). */
static brute_number_t canonical(int32_t first, int32_t count, int32_t chunk) {
  int32_t cut = 1;
  if (count == 1) return leaf(first, chunk);
  while (2 * cut < count) cut *= 2;
  return brute_combine(canonical(first, cut, chunk), canonical(first + cut, count - cut, chunk));
}

/* ---- the caller ----------------------------------------------------------------------------- */

void brute_enter(brute_t *brute, int32_t rank) {
  brute_check_poison(brute, rank, CALL_OUTSIDE);
  brute_poison_rank(brute, rank, CALL_INSIDE);
  int32_t inputs = plan_chunks(brute->plan, rank, PLAN_INPUT);
  for (int32_t i = 0; i < inputs; i++) *brute_cell(brute, rank, PLAN_INPUT, i) = leaf(rank, i);
  brute->calls[rank] = CALL_INSIDE;
}

/* The sum of the chunk over all ranks. */
static uint64_t total(const brute_t *brute, int32_t chunk) {
  uint64_t sum = 0;
  for (int32_t rank = 0; rank < brute->ranks; rank++) sum += leaf(rank, chunk).sum;
  return sum;
}

/* Whether the value is a reduction of all ranks' chunk in the order that the plan states. */
static bool is_in_order(const brute_t *brute, int32_t chunk, brute_number_t got) {
  brute_number_t asked = canonical(0, brute->ranks, chunk);
  if (brute->ranks > 1) asked = brute_rounded(asked);
  if (got.sum != total(brute, chunk)) return false;
  if (brute->plan->order >= PLAN_ORDER_CANONICAL && got.hash != asked.hash) return false;
  return brute->plan->order < PLAN_ORDER_EXACT || got.rounded == asked.rounded;
}

static bool is_right(brute_t *brute, int32_t rank, int32_t chunk, brute_number_t got) {
  const plan_shape_t *shape = &brute->plan->shape;
  int32_t parts = brute->plan->parts, block = chunk / parts, part = chunk % parts;
  switch (shape->collective) {
    case COLL_ALLREDUCE:
      if (!brute->has_agreed) brute->agreed[chunk] = got;
      return is_in_order(brute, chunk, got) && got.rounded == brute->agreed[chunk].rounded;
    case COLL_REDUCE: return is_in_order(brute, chunk, got);
    case COLL_REDUCE_SCATTERV:
    case COLL_REDUCE_SCATTER: return is_in_order(brute, rank * parts + chunk, got);
    case COLL_BROADCAST: return same(got, leaf(shape->root, chunk));
    case COLL_SCATTERV:
    case COLL_SCATTER: return same(got, leaf(shape->root, rank * parts + chunk));
    case COLL_ALLGATHER:
    case COLL_ALLGATHERV:
    case COLL_GATHERV:
    case COLL_GATHER: return same(got, leaf(block, part));
    case COLL_ALLTOALL:
    case COLL_ALLTOALLV: return same(got, leaf(block, rank * parts + part));
    case COLL_SENDRECV: return same(got, leaf(rank > 0 ? rank - 1 : brute->ranks - 1, chunk));
    case COLL_BARRIER:
    case COLL_COLLECTIVE_COUNT: break;
  }
  return true;
}

static void check_output(brute_t *brute, int32_t rank) {
  int32_t outputs = plan_chunks(brute->plan, rank, PLAN_OUTPUT);
  for (int32_t i = 0; i < outputs; i++) {
    if (!is_right(brute, rank, i, *brute_cell(brute, rank, PLAN_OUTPUT, i)))
      brute->fault = BRUTE_RESULT;
  }
  brute->has_agreed = true;
  if (brute->plan->shape.collective != COLL_BARRIER) return;
  for (int32_t other = 0; other < brute->ranks; other++) {
    if (brute->calls[other] == CALL_OUTSIDE) brute->fault = BRUTE_RESULT;
  }
}

/* INPUT that is not also OUTPUT belongs to the caller at all times. */
static void check_input(brute_t *brute, int32_t rank) {
  int32_t inputs = plan_chunks(brute->plan, rank, PLAN_INPUT);
  size_t first = brute->offset[rank][PLAN_OUTPUT];
  size_t last = first + (size_t)plan_chunks(brute->plan, rank, PLAN_OUTPUT);
  for (int32_t i = 0; i < inputs; i++) {
    size_t at = brute->offset[rank][PLAN_INPUT] + (size_t)i;
    bool is_output = at >= first && at < last;
    if (!is_output && !same(brute->memory[at], leaf(rank, i))) brute->fault = BRUTE_INPUT;
  }
}

void brute_leave(brute_t *brute, int32_t rank) {
  check_output(brute, rank);
  check_input(brute, rank);
  brute_poison_rank(brute, rank, CALL_LEFT);
  brute->calls[rank] = CALL_LEFT;
}
