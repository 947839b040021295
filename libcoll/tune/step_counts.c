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

static bool same_span(const plan_span_t *a, const plan_span_t *b) {
  return a->rank == b->rank && a->buffer == b->buffer && a->first == b->first &&
         a->count == b->count;
}

/* The preceding reduction whose result this copy copies, perhaps behind other copies of it, as the
 * engine stores all at once; NULL if there is none. */
static const plan_step_t *merged_reduction(const plan_lane_t *lane, size_t index,
                                           tune_touched_t *touched) {
  const plan_step_t *step = &lane->steps[index], *found = NULL;
  const plan_span_t *src = &step->copy.src;
  for (size_t at = index; at > 0; at--) {
    const plan_step_t *before = &lane->steps[at - 1];
    if (before->kind == PLAN_REDUCE && same_span(&before->reduce.dst, src)) found = before;
    if (before->kind != PLAN_COPY || !same_span(&before->copy.src, src)) break;
    if (before == touched->copy) {
      found = touched->copied;
      break;
    }
  }
  touched->copy = step;
  touched->copied = found;
  return found;
}

/* ---- messages that are read in place --------------------------------------------------------*/

static size_t slot_of(const tune_spans_t *spans, const plan_span_t *span) {
  size_t at = (size_t)span->first * 2 + (size_t)span->buffer;
  while (spans->slots[at & spans->mask] != NULL &&
         !same_span(spans->slots[at & spans->mask], span)) {
    at++;
  }
  return at & spans->mask;
}

/* Empties the table for as many spans. */
static void clear_spans(tune_spans_t *spans, size_t count) {
  spans->mask = 1;
  while (spans->mask <= 2 * count) spans->mask = spans->mask * 2 + 1;
  memset(spans->slots, 0, (spans->mask + 1) * sizeof(const plan_span_t *));
}

static void add_span(tune_spans_t *spans, const plan_span_t *span) {
  spans->slots[slot_of(spans, span)] = span;
}

static bool has_span(const tune_spans_t *spans, const plan_span_t *span) {
  return spans->slots[slot_of(spans, span)] != NULL;
}

static coll_status_t create_spans(tune_spans_t *spans, size_t count) {
  return base_alloc(4 * count + 4, sizeof(const plan_span_t *), "a profile",
                    (void **)&spans->slots);
}

/* The end of the RECVs in a row from `index` on. */
static size_t end_of_run(const plan_lane_t *lane, size_t index) {
  while (index < lane->count && lane->steps[index].kind == PLAN_RECV) index++;
  return index;
}

/* Finds the run that the RECV at `index` is in. */
static void find_run(const plan_program_t *program, const plan_lane_t *lane, size_t index,
                     tune_touched_t *touched) {
  if (touched->run_of == lane && index >= touched->run_begin && index < touched->run_end) return;
  size_t begin = index, end = end_of_run(lane, index);
  while (begin > 0 && lane->steps[begin - 1].kind == PLAN_RECV) begin--;
  bool is_reduced = end < lane->count && lane->steps[end].kind == PLAN_REDUCE;
  size_t source_count = is_reduced ? (size_t)lane->steps[end].reduce.source_count : 0;
  clear_spans(&touched->received, end - begin);
  clear_spans(&touched->sources, source_count);
  for (size_t i = begin; i < end; i++) add_span(&touched->received, &lane->steps[i].recv.dst);
  for (size_t i = 0; i < source_count; i++) {
    size_t first = (size_t)lane->steps[end].reduce.first_source;
    add_span(&touched->sources, &program->sources[first + i]);
  }
  touched->run_of = lane;
  touched->run_begin = begin;
  touched->run_end = end;
}

static bool may_read_in_place(const plan_t *plan) {
  return plan->reach == PLAN_REACH_OWN && plan->lanes == 1;
}

/* Whether the message of the RECV at `index` is received into scratch and is a source of the
 * reduction that follows it, directly or after other RECVs: the engine then reads it in the
 * transport's buffer (fused receive). */
static bool is_read_in_place(const plan_t *plan, const plan_program_t *program,
                             const plan_lane_t *lane, size_t index, tune_touched_t *touched) {
  const plan_span_t *span = &lane->steps[index].recv.dst;
  if (!may_read_in_place(plan) || span->buffer != PLAN_SCRATCH) return false;
  find_run(program, lane, index, touched);
  return has_span(&touched->sources, span);
}

/* Whether the source of the reduction at `index` is such a message. */
static bool source_is_message(const plan_t *plan, const plan_program_t *program,
                              const plan_lane_t *lane, size_t index, const plan_span_t *source,
                              tune_touched_t *touched) {
  if (!may_read_in_place(plan) || source->buffer != PLAN_SCRATCH) return false;
  if (index == 0 || lane->steps[index - 1].kind != PLAN_RECV) return false;
  find_run(program, lane, index - 1, touched);
  return has_span(&touched->received, source);
}

/* Room for the longest run of RECVs, and for the most sources. */
static coll_status_t create_run(const plan_program_t *program, tune_touched_t *touched) {
  const plan_lane_t *lane = &program->lanes[0];
  size_t longest = 0, sources = 0;
  for (size_t i = 0; i < lane->count; i++) {
    const plan_step_t *step = &lane->steps[i];
    size_t end = end_of_run(lane, i);
    if (end - i > longest) longest = end - i;
    if (step->kind == PLAN_REDUCE && (size_t)step->reduce.source_count > sources) {
      sources = (size_t)step->reduce.source_count;
    }
    if (end > i) i = end - 1;
  }
  COLL_TRY(create_spans(&touched->received, longest));
  return create_spans(&touched->sources, sources);
}

/* ---- steps ----------------------------------------------------------------------------------*/

static bool is_distant(const plan_t *plan, int32_t rank, int32_t peer) {
  return !topo_layout_shares_memory(plan->shape.layout, rank, peer);
}

void tune_step_counts_add(const plan_t *plan, int32_t rank, const plan_lane_t *lane, size_t index,
                          tune_touched_t *touched, tune_counts_t *counts) {
  const plan_program_t *program = &plan->programs[rank];
  const plan_step_t *step = &lane->steps[index];
  const plan_step_t *reduction =
      step->kind == PLAN_COPY ? merged_reduction(lane, index, touched) : NULL;
  switch (step->kind) {
    case PLAN_COPY:
      if (reduction == NULL) {
        count_load(plan, rank, &step->copy.src, touched, counts);
        counts->steps++;
      }
      count_store(plan, rank, &step->copy.dst,
                  reduction != NULL && reduction->reduce.source_count > 1, touched, counts);
      break;
    case PLAN_REDUCE:
      for (int32_t i = 0; i < step->reduce.source_count; i++) {
        const plan_span_t *source = &program->sources[step->reduce.first_source + i];
        if (source_is_message(plan, program, lane, index, source, touched)) continue;
        count_load(plan, rank, source, touched, counts);
      }
      count_store(plan, rank, &step->reduce.dst, false, touched, counts);
      counts->chunks[TUNE_FOLD] +=
          (int64_t)(step->reduce.source_count - 1) * step->reduce.dst.count;
      counts->steps++;
      break;
    case PLAN_SEND:
      if (plan->multicast && !plan_begins_row(plan, rank, step)) break;
      count_load(plan, rank, &step->send.src, touched, counts);
      counts->chunks[TUNE_PUSH] += step->send.src.count;
      counts->messages++;
      counts->distant += is_distant(plan, rank, step->send.peer);
      break;
    case PLAN_RECV:
      counts->chunks[TUNE_PULL] += step->recv.dst.count;
      counts->messages++;
      counts->distant += is_distant(plan, rank, step->recv.peer);
      if (is_read_in_place(plan, program, lane, index, touched)) break;
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

coll_status_t tune_touched_create(const plan_t *plan, int32_t rank, tune_touched_t *touched) {
  for (int buffer = 0; buffer < PLAN_SCRATCH; buffer++) {
    size_t count = (size_t)plan_chunks(plan, rank, (plan_buffer_t)buffer);
    COLL_TRY(base_alloc(count + 1, sizeof(bool), "a profile", (void **)&touched->chunks[buffer]));
  }
  return may_read_in_place(plan) ? create_run(&plan->programs[rank], touched) : COLL_OK;
}

void tune_touched_forget(const plan_t *plan, int32_t rank, tune_touched_t *touched) {
  for (int buffer = 0; buffer < PLAN_SCRATCH; buffer++) {
    memset(touched->chunks[buffer], 0, (size_t)plan_chunks(plan, rank, (plan_buffer_t)buffer));
  }
}

void tune_touched_free(tune_touched_t *touched) {
  for (int buffer = 0; buffer < PLAN_SCRATCH; buffer++) free(touched->chunks[buffer]);
  free(touched->received.slots);
  free(touched->sources.slots);
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
