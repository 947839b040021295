/* The copy is the first step of lane 0, and all other lanes begin after it. So every lane that has
 * steps gets one step at its front, and the numbers of steps grow by one. */
#include "plan/input_copies.h"

#include <string.h>

#include "base/alloc.h"

static bool has_alias(const plan_t *plan, int rank) {
  return plan_chunks(plan, rank, PLAN_INPUT) > 0 && plan_alias(plan, rank, 0) >= 0;
}

static bool is_possible(const plan_shape_t *shape) {
  return plan_blocks_of(shape->collective, PLAN_INPUT) < PLAN_BLOCKS_PER_RANK ||
         shape->collective == COLL_ALLTOALL;
}

static void rename_span(const plan_t *plan, plan_span_t *span) {
  if (span->buffer != PLAN_INPUT || !has_alias(plan, span->rank)) return;
  span->buffer = PLAN_OUTPUT;
  span->first = plan_alias(plan, span->rank, span->first);
}

static void rename_step(const plan_t *plan, bool copies, plan_step_t *step) {
  switch (step->kind) {
    case PLAN_COPY:
      rename_span(plan, &step->copy.dst);
      rename_span(plan, &step->copy.src);
      return;
    case PLAN_REDUCE: rename_span(plan, &step->reduce.dst); return; /* sources: of the program */
    case PLAN_SEND: rename_span(plan, &step->send.src); return;
    case PLAN_RECV: rename_span(plan, &step->recv.dst); return;
    case PLAN_AFTER: step->after.step += copies; return;
    default: return;
  }
}

static coll_status_t put_first(plan_lane_t *lane, plan_step_t step) {
  COLL_TRY(base_grow((void **)&lane->steps, &lane->capacity, lane->count + 1, sizeof step,
                     "plan steps"));
  memmove(lane->steps + 1, lane->steps, lane->count * sizeof step);
  lane->steps[0] = step;
  lane->count++;
  return COLL_OK;
}

static plan_step_t copy_of_input(const plan_t *plan, int rank) {
  int32_t count = plan_chunks(plan, rank, PLAN_INPUT);
  return (plan_step_t){.kind = PLAN_COPY,
                       .copy = {.dst = {rank, PLAN_OUTPUT, plan_alias(plan, rank, 0), count},
                                .src = {rank, PLAN_INPUT, 0, count}}};
}

/* copies: a step comes before those of each lane. */
static void rename_program(const plan_t *plan, plan_program_t *program, bool copies) {
  for (size_t i = 0; i < program->source_count; i++) rename_span(plan, &program->sources[i]);
  for (int number = 0; number < plan->lanes; number++) {
    plan_lane_t *lane = &program->lanes[number];
    for (size_t i = 0; i < lane->count; i++) rename_step(plan, copies, &lane->steps[i]);
  }
}

void plan_rename_input(plan_t *plan) {
  for (int rank = 0; is_possible(&plan->shape) && rank < plan->shape.size; rank++) {
    rename_program(plan, &plan->programs[rank], false);
  }
}

/* Ranks that have no OUTPUT copy nothing, but peers' chunks have other names. */
static coll_status_t change_program(plan_t *plan, int rank) {
  plan_program_t *program = &plan->programs[rank];
  bool copies = has_alias(plan, rank);
  program->in_place = false;
  rename_program(plan, program, copies);
  for (int number = 0; number < plan->lanes; number++) {
    plan_lane_t *lane = &program->lanes[number];
    if (!copies || (number > 0 && lane->count == 0)) continue;
    plan_step_t after = {.kind = PLAN_AFTER, .after = {.lane = 0, .step = 0}};
    COLL_TRY(put_first(lane, number == 0 ? copy_of_input(plan, rank) : after));
  }
  return COLL_OK;
}

coll_status_t plan_add_input_copies(plan_t *plan, bool *changed) {
  *changed = is_possible(&plan->shape);
  for (int rank = 0; *changed && rank < plan->shape.size; rank++) {
    COLL_TRY(change_program(plan, rank));
  }
  return COLL_OK;
}
