/*
 * Plans as data: creation, how blocks are cut into chunks, which memory an in-place call shares
 * between INPUT and OUTPUT, and comparison.
 */
#include "plan/plan.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

coll_status_t plan_create(const plan_shape_t *shape, const char *algorithm, plan_t **plan) {
  plan_t *made = NULL;
  if (shape->size < 1 || shape->size > PLAN_RANKS_MAX) {
    return base_fail(COLL_ERROR_INVALID, "a plan is for 1 to %d ranks, not %d", PLAN_RANKS_MAX,
                     shape->size);
  }
  if (shape->root < 0 || shape->root >= shape->size) {
    return base_fail(COLL_ERROR_INVALID, "root %d is not a rank of 0..%d", shape->root,
                     shape->size - 1);
  }
  COLL_TRY(base_alloc(1, sizeof *made, "a plan", (void **)&made));
  coll_status_t status = base_alloc((size_t)shape->size, sizeof *made->programs,
                                    "a plan's programs", (void **)&made->programs);
  if (status != COLL_OK) {
    free(made);
    return status;
  }
  made->shape = *shape;
  snprintf(made->algorithm, sizeof made->algorithm, "%s", algorithm);
  made->parts = 1;
  status = plan_set_lanes(made, 1);
  if (status != COLL_OK) {
    plan_free(made);
    return status;
  }
  *plan = made;
  return COLL_OK;
}

static void move_lanes(plan_program_t *program, int32_t before, int32_t lanes, plan_lane_t *made) {
  for (int32_t lane = 0; lane < before && lane < lanes; lane++) made[lane] = program->lanes[lane];
  for (int32_t lane = lanes; lane < before; lane++) free(program->lanes[lane].steps);
}

/* One array for all programs: of many ranks, most plans have the program of only one. */
coll_status_t plan_set_lanes(plan_t *plan, int32_t lanes) {
  int32_t before = plan->lanes;
  plan_lane_t *made = NULL, *old = plan->programs[0].lanes;
  assert(lanes >= 1 && lanes <= PLAN_LANES_MAX);
  if (lanes == before) return COLL_OK;
  COLL_TRY(base_alloc((size_t)plan->shape.size * (size_t)lanes, sizeof *made, "a plan's lanes",
                      (void **)&made));
  for (int32_t rank = 0; rank < plan->shape.size; rank++) {
    plan_lane_t *own = &made[(size_t)rank * (size_t)lanes];
    move_lanes(&plan->programs[rank], before, lanes, own);
    plan->programs[rank].lanes = own;
  }
  free(old);
  plan->lanes = lanes;
  return COLL_OK;
}

/* Each plan keeps its array of lanes. */
void plan_exchange(plan_t *plan, plan_t *other, int32_t rank) {
  plan_program_t own = plan->programs[rank], its = other->programs[rank];
  assert(plan->lanes == other->lanes);
  for (int32_t i = 0; i < plan->lanes; i++) {
    plan_lane_t lane = own.lanes[i];
    own.lanes[i] = its.lanes[i];
    its.lanes[i] = lane;
  }
  plan->programs[rank] = its;
  plan->programs[rank].lanes = own.lanes;
  other->programs[rank] = own;
  other->programs[rank].lanes = its.lanes;
}

void plan_free(plan_t *plan) {
  if (plan == NULL) return;
  for (int32_t rank = 0; rank < plan->shape.size; rank++) {
    plan_program_t *program = &plan->programs[rank];
    for (int lane = 0; lane < plan->lanes; lane++) free(program->lanes[lane].steps);
    free(program->sources);
  }
  free(plan->programs[0].lanes);
  free(plan->programs);
  free(plan);
}

int32_t plan_chunks(const plan_t *plan, int rank, plan_buffer_t buffer) {
  if (buffer == PLAN_SCRATCH) return plan->scratch_chunks;
  return plan_blocks(&plan->shape, rank, buffer) * plan->parts;
}

int32_t plan_chunks_max(const plan_t *plan) {
  int32_t most = 0;
  for (int32_t rank = 0; rank < plan->shape.size; rank++) {
    int32_t in = plan_chunks(plan, rank, PLAN_INPUT), out = plan_chunks(plan, rank, PLAN_OUTPUT);
    most = in > most ? in : most;
    most = out > most ? out : most;
  }
  return most;
}

size_t plan_part_offset(size_t count, int32_t parts, int32_t part, size_t grain) {
  assert(part >= 0 && part <= parts && grain >= 1);
  if (part == 0) return 0; /* avoids divisions for the ends of a block, the most frequent case */
  if (part == parts) return count;
  size_t grains = (count + grain - 1) / grain;
  size_t whole = grains / (size_t)parts, extra = grains % (size_t)parts;
  size_t before = whole * (size_t)part + ((size_t)part < extra ? (size_t)part : extra);
  size_t offset = before * grain;
  return offset < count ? offset : count;
}

int32_t plan_alias(const plan_t *plan, int rank, int32_t chunk) {
  const plan_shape_t *shape = &plan->shape;
  int32_t parts = plan->parts, own = (int32_t)rank * parts;
  if (plan_blocks(shape, rank, PLAN_OUTPUT) == 0) return -1;
  switch (shape->collective) {
    case COLL_ALLREDUCE:
    case COLL_REDUCE:
    case COLL_BROADCAST:
    case COLL_ALLTOALL: return chunk;
    case COLL_ALLGATHER:
    case COLL_ALLGATHERV:
    case COLL_GATHERV:
    case COLL_GATHER: return own + chunk;
    case COLL_REDUCE_SCATTER:
    case COLL_REDUCE_SCATTERV:
    case COLL_SCATTERV:
    case COLL_SCATTER: return chunk >= own && chunk < own + parts ? chunk - own : -1;
    case COLL_ALLTOALLV:
    case COLL_BARRIER:
    case COLL_SENDRECV:
    case COLL_COLLECTIVE_COUNT: break;
  }
  return -1;
}

static bool spans_equal(const plan_span_t *a, const plan_span_t *b) {
  return a->rank == b->rank && a->buffer == b->buffer && a->first == b->first &&
         a->count == b->count;
}

/* Whether the spans and their order are the same; their position in the tables does not matter. */
static bool sources_equal(const plan_program_t *of_a, const plan_step_t *a,
                          const plan_program_t *of_b, const plan_step_t *b) {
  if (a->reduce.source_count != b->reduce.source_count) return false;
  const plan_span_t *left = &of_a->sources[a->reduce.first_source];
  const plan_span_t *right = &of_b->sources[b->reduce.first_source];
  for (int32_t i = 0; i < a->reduce.source_count; i++) {
    if (!spans_equal(&left[i], &right[i])) return false;
  }
  return true;
}

static bool steps_equal(const plan_program_t *of_a, const plan_step_t *a,
                        const plan_program_t *of_b, const plan_step_t *b) {
  if (a->kind != b->kind) return false;
  switch (a->kind) {
    case PLAN_COPY:
      return spans_equal(&a->copy.dst, &b->copy.dst) && spans_equal(&a->copy.src, &b->copy.src);
    case PLAN_REDUCE:
      return spans_equal(&a->reduce.dst, &b->reduce.dst) && sources_equal(of_a, a, of_b, b);
    case PLAN_SEND:
      return a->send.peer == b->send.peer && a->send.channel == b->send.channel &&
             spans_equal(&a->send.src, &b->send.src);
    case PLAN_RECV:
      return a->recv.peer == b->recv.peer && a->recv.channel == b->recv.channel &&
             spans_equal(&a->recv.dst, &b->recv.dst);
    case PLAN_SIGNAL: return a->signal.peer == b->signal.peer;
    case PLAN_WAIT: return a->wait.peer == b->wait.peer;
    case PLAN_AFTER: return a->after.lane == b->after.lane && a->after.step == b->after.step;
    case PLAN_STEP_KIND_COUNT: break;
  }
  return false;
}

static bool programs_equal(int32_t lanes, const plan_program_t *a, const plan_program_t *b) {
  for (int lane = 0; lane < lanes; lane++) {
    if (a->lanes[lane].count != b->lanes[lane].count) return false;
    for (size_t i = 0; i < a->lanes[lane].count; i++) {
      if (!steps_equal(a, &a->lanes[lane].steps[i], b, &b->lanes[lane].steps[i])) return false;
    }
  }
  return true;
}

bool plan_equal(const plan_t *a, const plan_t *b) {
  if (a->shape.collective != b->shape.collective || a->shape.size != b->shape.size ||
      a->shape.root != b->shape.root || strcmp(a->algorithm, b->algorithm) != 0 ||
      a->parts != b->parts || a->scratch_chunks != b->scratch_chunks || a->lanes != b->lanes ||
      a->depth != b->depth || a->message_chunks != b->message_chunks ||
      a->multicast != b->multicast || a->own_scratch != b->own_scratch || a->reach != b->reach ||
      a->order != b->order) {
    return false;
  }
  for (int32_t rank = 0; rank < a->shape.size; rank++) {
    if (!programs_equal(a->lanes, &a->programs[rank], &b->programs[rank])) return false;
  }
  return true;
}

const char *plan_buffer_name(plan_buffer_t buffer) {
  static const char *const names[PLAN_BUFFER_COUNT] = {"input", "output", "scratch"};
  return (unsigned)buffer < PLAN_BUFFER_COUNT ? names[buffer] : "?";
}

const char *plan_step_kind_name(plan_step_kind_t kind) {
  static const char *const names[PLAN_STEP_KIND_COUNT] = {"copy",   "reduce", "send", "recv",
                                                          "signal", "wait",   "after"};
  return (unsigned)kind < PLAN_STEP_KIND_COUNT ? names[kind] : "?";
}

const char *plan_reach_name(plan_reach_t reach) {
  static const char *const names[PLAN_REACH_COUNT] = {"own", "scratch", "read", "user"};
  return (unsigned)reach < PLAN_REACH_COUNT ? names[reach] : "?";
}

const char *plan_order_name(plan_order_t order) {
  static const char *const names[PLAN_ORDER_COUNT] = {"fixed", "canonical", "exact"};
  if (order == PLAN_ORDER_ANY) return "any";
  return (unsigned)order < PLAN_ORDER_COUNT ? names[order] : "?";
}
