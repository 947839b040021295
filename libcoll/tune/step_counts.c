/* Counts as the engine executes: fused copies, fused receives and multicast rows count once. */
#include "tune/step_counts.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

void tune_counts_add(tune_counts_t *counts, const tune_counts_t *more) {
  counts->hops += more->hops;
  counts->messages += more->messages;
  counts->flags += more->flags;
  counts->steps += more->steps;
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

static bool same_span(const plan_span_t *a, const plan_span_t *b) {
  return a->rank == b->rank && a->buffer == b->buffer && a->first == b->first &&
         a->count == b->count;
}

/* The preceding reduction whose result this step copies, as the engine stores both at once; NULL if
 * there is none. */
static const plan_step_t *merged_reduction(const plan_lane_t *lane, size_t index) {
  const plan_span_t *src = &lane->steps[index].copy.src;
  while (index-- > 0) {
    const plan_step_t *before = &lane->steps[index];
    if (before->kind == PLAN_REDUCE) return same_span(&before->reduce.dst, src) ? before : NULL;
    if (before->kind != PLAN_COPY || !same_span(&before->copy.src, src)) return NULL;
  }
  return NULL;
}

/* after: the steps from the one that receives the span to the reduction. Sources mostly come in the
 * order of the messages, which shows where to look first: a flat plan has a source of every rank.
 */
static bool is_source(const plan_program_t *program, const plan_step_t *reduce,
                      const plan_span_t *span, size_t after) {
  size_t count = (size_t)reduce->reduce.source_count;
  const plan_span_t *sources = &program->sources[reduce->reduce.first_source];
  if (after <= count && same_span(&sources[count - after], span)) return true;
  for (int32_t i = 0; i < reduce->reduce.source_count; i++) {
    if (same_span(&program->sources[reduce->reduce.first_source + i], span)) return true;
  }
  return false;
}

/* The first step from `index` on that is no RECV. */
static size_t end_of_receives(const plan_lane_t *lane, size_t index, tune_touched_t *touched) {
  if (touched->receives_of != lane || index < touched->receives_begin ||
      index >= touched->receives_end) {
    size_t end = index;
    while (end < lane->count && lane->steps[end].kind == PLAN_RECV) end++;
    touched->receives_of = lane;
    touched->receives_begin = index;
    touched->receives_end = end;
  }
  return touched->receives_end;
}

/* Whether the message of the RECV at `index` is received into scratch and is a source of the
 * reduction that follows it, directly or after other RECVs: the engine then reads it in the
 * transport's buffer (fused receive). */
static bool is_read_in_place(const plan_t *plan, const plan_program_t *program,
                             const plan_lane_t *lane, size_t index, tune_touched_t *touched) {
  if (plan->reach != PLAN_REACH_OWN || plan->lanes != 1) return false;
  const plan_span_t *dst = &lane->steps[index].recv.dst;
  if (dst->buffer != PLAN_SCRATCH) return false;
  size_t end = end_of_receives(lane, index, touched);
  if (end == lane->count || lane->steps[end].kind != PLAN_REDUCE) return false;
  return is_source(program, &lane->steps[end], dst, end - index);
}

static bool receives(const plan_step_t *step, const plan_span_t *span) {
  return step->kind == PLAN_RECV && same_span(span, &step->recv.dst);
}

/* Whether the source of the reduction at `index` is such a message. after: the sources from this
 * one to the last (is_source). */
static bool source_is_message(const plan_t *plan, const plan_program_t *program,
                              const plan_lane_t *lane, size_t index, const plan_span_t *source,
                              size_t after, tune_touched_t *touched) {
  if (source->buffer != PLAN_SCRATCH) return false;
  if (after <= index && receives(&lane->steps[index - after], source) &&
      end_of_receives(lane, index - after, touched) == index) {
    return is_read_in_place(plan, program, lane, index - after, touched);
  }
  while (index-- > 0 && lane->steps[index].kind == PLAN_RECV) {
    if (!receives(&lane->steps[index], source)) continue;
    return is_read_in_place(plan, program, lane, index, touched);
  }
  return false;
}

tune_counts_t tune_step_counts(const plan_t *plan, int32_t rank, const plan_lane_t *lane,
                               size_t index, tune_touched_t *touched) {
  const plan_program_t *program = &plan->programs[rank];
  const plan_step_t *step = &lane->steps[index];
  const plan_step_t *reduction = step->kind == PLAN_COPY ? merged_reduction(lane, index) : NULL;
  tune_counts_t counts = {0};
  switch (step->kind) {
    case PLAN_COPY:
      if (reduction == NULL) {
        count_load(plan, rank, &step->copy.src, touched, &counts);
        counts.steps = 1;
      }
      count_store(plan, rank, &step->copy.dst,
                  reduction != NULL && reduction->reduce.source_count > 1, touched, &counts);
      break;
    case PLAN_REDUCE:
      for (int32_t i = 0; i < step->reduce.source_count; i++) {
        const plan_span_t *source = &program->sources[step->reduce.first_source + i];
        size_t after = (size_t)(step->reduce.source_count - i);
        if (source_is_message(plan, program, lane, index, source, after, touched)) continue;
        count_load(plan, rank, source, touched, &counts);
      }
      count_store(plan, rank, &step->reduce.dst, false, touched, &counts);
      counts.chunks[TUNE_FOLD] += (int64_t)(step->reduce.source_count - 1) * step->reduce.dst.count;
      counts.steps = 1;
      break;
    case PLAN_SEND:
      if (plan->multicast && !plan_begins_row(plan, rank, step)) break;
      count_load(plan, rank, &step->send.src, touched, &counts);
      counts.chunks[TUNE_PUSH] += step->send.src.count;
      counts.messages = 1;
      break;
    case PLAN_RECV:
      counts.chunks[TUNE_PULL] += step->recv.dst.count;
      counts.messages = 1;
      if (is_read_in_place(plan, program, lane, index, touched)) break;
      count_store(plan, rank, &step->recv.dst, false, touched, &counts);
      break;
    case PLAN_SIGNAL:
    case PLAN_WAIT: counts.flags = 1; break;
    case PLAN_AFTER:
    case PLAN_STEP_KIND_COUNT: break;
  }
  return counts;
}

coll_status_t tune_touched_create(const plan_t *plan, int32_t rank, tune_touched_t *touched) {
  for (int buffer = 0; buffer < PLAN_SCRATCH; buffer++) {
    size_t count = (size_t)plan_chunks(plan, rank, (plan_buffer_t)buffer);
    COLL_TRY(base_alloc(count + 1, sizeof(bool), "a profile", (void **)&touched->chunks[buffer]));
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
}

tune_counts_t tune_counts_times(const tune_counts_t *counts, int64_t factor, int64_t divisor) {
  tune_counts_t product = {.hops = counts->hops * factor / divisor,
                           .messages = counts->messages * factor / divisor,
                           .flags = counts->flags * factor / divisor,
                           .steps = counts->steps * factor / divisor,
                           .gets = counts->gets * factor / divisor};
  for (int move = 0; move < TUNE_MOVE_COUNT; move++) {
    product.chunks[move] = counts->chunks[move] * factor / divisor;
  }
  return product;
}
