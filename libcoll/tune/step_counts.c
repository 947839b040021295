/* Counts as the engine executes: what is one action there (plan/fuse.h) counts once. */
#include "tune/step_counts.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "plan/liveness.h"

void tune_counts_add(tune_counts_t *counts, const tune_counts_t *more) {
  counts->hops += more->hops;
  counts->messages += more->messages;
  counts->flags += more->flags;
  counts->steps += more->steps;
  counts->distant += more->distant;
  counts->gets += more->gets;
  for (int move = 0; move < TUNE_MOVE_COUNT; move++) counts->chunks[move] += more->chunks[move];
}

static void touch(tune_touched_t *touched, const plan_span_t *span) {
  for (int32_t i = 0; i < span->count; i++) touched->chunks[span->buffer][span->first + i] = true;
}

/* Passes through slots and scratch fit a cache, so data is near (TUNE_NEAR) once it was
 * accessed. */
static void count_load(const plan_t *plan, int32_t rank, const plan_span_t *span,
                       tune_touched_t *touched, tune_counts_t *counts) {
  int64_t near = span->buffer == PLAN_SCRATCH ? span->count : 0;
  if (span->rank != rank) {
    counts->chunks[span->buffer == PLAN_INPUT ? TUNE_LOAD_FAR : TUNE_PULL] += span->count;
    bool may_get = plan->reach == PLAN_REACH_READ && span->buffer != PLAN_SCRATCH;
    counts->chunks[TUNE_GET] += may_get ? span->count : 0;
    counts->gets += may_get;
    return;
  }
  for (int32_t i = 0; span->buffer != PLAN_SCRATCH && i < span->count; i++) {
    near += !plan_reach_exchanges(plan->reach) && touched->chunks[span->buffer][span->first + i];
  }
  counts->chunks[TUNE_NEAR] += near;
  counts->chunks[TUNE_LOAD] += span->count - near;
  if (span->buffer != PLAN_SCRATCH) touch(touched, span);
}

static void count_store(const plan_t *plan, int32_t rank, const plan_span_t *span, bool is_merged,
                        tune_touched_t *touched, tune_counts_t *counts) {
  tune_move_t far = is_merged ? TUNE_ALONG : TUNE_STORE_FAR;
  tune_move_t move = span->rank == rank ? TUNE_STORE : far;
  if (span->buffer == PLAN_SCRATCH) {
    move = span->rank != rank || plan->reach != PLAN_REACH_OWN ? TUNE_PUSH : TUNE_NEAR;
  } else if (span->rank == rank) {
    touch(touched, span);
  }
  counts->chunks[move] += span->count;
}

/* ---- actions --------------------------------------------------------------------------------*/

/* Whether the source of the reduction is a message that it reads in place: that load is counted at
 * the RECV. */
static bool is_message(const plan_lane_t *lane, const plan_fused_t *action,
                       const plan_span_t *source) {
  for (uint32_t recv = action->first; recv < action->reduction; recv++) {
    if (plan_spans_equal(&lane->steps[recv].recv.dst, source)) return true;
  }
  return false;
}

/* Whether the action stores the result of several operands. */
static bool combines(const plan_lane_t *lane, const plan_fused_t *action) {
  return action->reduction < action->end && lane->steps[action->reduction].reduce.source_count > 1;
}

static void find_actions(const plan_t *plan, int32_t rank, int32_t lane,
                         const plan_capabilities_t *can, plan_fused_t actions[]) {
  const plan_program_t *program = &plan->programs[rank];
  size_t count = program->lanes[lane].count;
  for (size_t step = 0; step < count;) {
    const plan_fused_t action = plan_fuse(plan, program, rank, lane, step, can);
    while (step < action.end) actions[step++] = action;
  }
}

/* ---- steps ----------------------------------------------------------------------------------*/

static bool is_distant(const plan_t *plan, int32_t rank, int32_t peer) {
  return !topo_layout_shares_memory(plan->shape.layout, rank, peer);
}

static void count_message(const plan_t *plan, int32_t rank, int32_t peer, tune_move_t move,
                          int32_t chunks, tune_counts_t *counts) {
  counts->messages++;
  counts->chunks[move] += chunks;
  if (!is_distant(plan, rank, peer)) return;
  counts->distant++;
  counts->chunks[TUNE_CROSS] += chunks;
}

static void count_reduction(const plan_t *plan, int32_t rank, const plan_lane_t *lane,
                            const plan_fused_t *action, tune_touched_t *touched,
                            tune_counts_t *counts) {
  const plan_program_t *program = &plan->programs[rank];
  const plan_step_t *step = &lane->steps[action->reduction];
  for (int32_t i = 0; i < step->reduce.source_count; i++) {
    const plan_span_t *source = &program->sources[step->reduce.first_source + i];
    if (!is_message(lane, action, source)) count_load(plan, rank, source, touched, counts);
  }
  count_store(plan, rank, &step->reduce.dst, false, touched, counts);
  counts->chunks[TUNE_FOLD] += (int64_t)(step->reduce.source_count - 1) * step->reduce.dst.count;
  counts->steps++;
}

void tune_step_counts_add(const plan_t *plan, int32_t rank, const plan_lane_t *lane, size_t index,
                          tune_touched_t *touched, tune_counts_t *counts) {
  const plan_step_t *step = &lane->steps[index];
  size_t number = (size_t)(lane - plan->programs[rank].lanes);
  const plan_fused_t *action = &touched->actions[number][index];
  switch (step->kind) {
    case PLAN_COPY:
      if (action->first == index) {
        count_load(plan, rank, &step->copy.src, touched, counts);
        counts->steps++;
      }
      count_store(plan, rank, &step->copy.dst, combines(lane, action), touched, counts);
      break;
    case PLAN_REDUCE: count_reduction(plan, rank, lane, action, touched, counts); break;
    case PLAN_SEND:
      if (action->first != index) break;
      count_load(plan, rank, &step->send.src, touched, counts);
      count_message(plan, rank, step->send.peer, TUNE_PUSH, step->send.src.count, counts);
      break;
    case PLAN_RECV:
      count_message(plan, rank, step->recv.peer, TUNE_PULL, step->recv.dst.count, counts);
      if (plan_fused_reads(action, index)) break;
      count_store(plan, rank, &step->recv.dst, false, touched, counts);
      break;
    case PLAN_SIGNAL:
      counts->flags++;
      counts->distant += is_distant(plan, rank, step->signal.peer);
      break;
    case PLAN_WAIT:
      counts->flags++;
      counts->distant += is_distant(plan, rank, step->wait.peer);
      break;
    case PLAN_AFTER:
    case PLAN_STEP_KIND_COUNT: break;
  }
}

static size_t steps_of(const plan_t *plan, int32_t rank) {
  size_t count = 0;
  for (int32_t i = 0; i < plan->lanes; i++) count += plan->programs[rank].lanes[i].count;
  return count;
}

coll_status_t tune_touched_create(const plan_t *plan, int32_t rank, const plan_capabilities_t *can,
                                  tune_touched_t *touched) {
  static const char what[] = "a profile";
  for (int buffer = 0; buffer < PLAN_SCRATCH; buffer++) {
    size_t count = (size_t)plan_chunks(plan, rank, (plan_buffer_t)buffer);
    COLL_TRY(base_alloc(count + 1, sizeof(bool), what, (void **)&touched->chunks[buffer]));
  }
  size_t lanes = (size_t)plan->lanes, steps = steps_of(plan, rank);
  COLL_TRY(base_alloc(lanes, sizeof *touched->actions, what, (void **)&touched->actions));
  COLL_TRY(base_alloc(steps + 1, sizeof(plan_fused_t), what, (void **)&touched->all_actions));
  plan_fused_t *actions = touched->all_actions;
  for (int32_t lane = 0; lane < plan->lanes; lane++) {
    touched->actions[lane] = actions;
    find_actions(plan, rank, lane, can, actions);
    actions += plan->programs[rank].lanes[lane].count;
  }
  return COLL_OK;
}

void tune_touched_forget(const plan_t *plan, int32_t rank, tune_touched_t *touched) {
  for (int buffer = 0; buffer < PLAN_SCRATCH; buffer++) {
    memset(touched->chunks[buffer], 0, (size_t)plan_chunks(plan, rank, (plan_buffer_t)buffer));
  }
}

void tune_touched_free(tune_touched_t *touched) {
  for (int buffer = 0; buffer < PLAN_SCRATCH; buffer++) free(touched->chunks[buffer]);
  free(touched->all_actions);
  free(touched->actions);
}

tune_counts_t tune_counts_times(const tune_counts_t *counts, int64_t factor, int64_t divisor) {
  tune_counts_t product = {.hops = counts->hops * factor / divisor,
                           .messages = counts->messages * factor / divisor,
                           .flags = counts->flags * factor / divisor,
                           .steps = counts->steps * factor / divisor,
                           .distant = counts->distant * factor / divisor,
                           .gets = counts->gets * factor / divisor};
  for (int move = 0; move < TUNE_MOVE_COUNT; move++) {
    product.chunks[move] = counts->chunks[move] * factor / divisor;
  }
  return product;
}
