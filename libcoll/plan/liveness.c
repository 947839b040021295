/* Searches the steps of a lane in order. */
#include "plan/liveness.h"

bool plan_spans_equal(const plan_span_t *a, const plan_span_t *b) {
  return a->rank == b->rank && a->buffer == b->buffer && a->first == b->first &&
         a->count == b->count;
}

bool plan_spans_overlap(const plan_span_t *a, const plan_span_t *b) {
  return a->rank == b->rank && a->buffer == b->buffer && a->first < b->first + b->count &&
         b->first < a->first + a->count;
}

static bool covers(const plan_span_t *a, const plan_span_t *b) {
  return a->rank == b->rank && a->buffer == b->buffer && a->first <= b->first &&
         a->first + a->count >= b->first + b->count;
}

static bool reads(const plan_program_t *program, const plan_step_t *step, const plan_span_t *span) {
  switch (step->kind) {
    case PLAN_COPY: return plan_spans_overlap(&step->copy.src, span);
    case PLAN_SEND: return plan_spans_overlap(&step->send.src, span);
    case PLAN_REDUCE:
      for (int32_t i = 0; i < step->reduce.source_count; i++) {
        const plan_span_t *source = &program->sources[step->reduce.first_source + i];
        if (plan_spans_overlap(source, span)) return true;
      }
      return false;
    default: return false;
  }
}

static bool overwrites(const plan_step_t *step, const plan_span_t *span) {
  switch (step->kind) {
    case PLAN_COPY: return covers(&step->copy.dst, span);
    case PLAN_RECV: return covers(&step->recv.dst, span);
    case PLAN_REDUCE: return covers(&step->reduce.dst, span);
    default: return false;
  }
}

bool plan_is_read_later(const plan_program_t *program, const plan_lane_t *lane, size_t step,
                        const plan_span_t *span) {
  for (; step < lane->count; step++) {
    if (reads(program, &lane->steps[step], span)) return true;
    if (overwrites(&lane->steps[step], span)) return false;
  }
  return false;
}

static const plan_span_t *stored_by(const plan_step_t *step) {
  switch (step->kind) {
    case PLAN_COPY: return &step->copy.dst;
    case PLAN_RECV: return &step->recv.dst;
    case PLAN_REDUCE: return &step->reduce.dst;
    default: return NULL;
  }
}

/* The two spans are of one rank. */
static bool share_memory(const plan_t *plan, const plan_program_t *program, const plan_span_t *a,
                         const plan_span_t *b) {
  if (a->buffer == b->buffer) return plan_spans_overlap(a, b);
  if (!program->in_place || a->buffer == PLAN_SCRATCH || b->buffer == PLAN_SCRATCH) return false;
  const plan_span_t *input = a->buffer == PLAN_INPUT ? a : b, *output = input == a ? b : a;
  for (int32_t i = 0; i < input->count; i++) {
    int32_t chunk = plan_alias(plan, input->rank, input->first + i);
    if (chunk >= output->first && chunk < output->first + output->count) return true;
  }
  return false;
}

/* Whether it is known which chunks of INPUT and OUTPUT are the same memory, and only this rank
 * stores there. Every pass uses SCRATCH again. */
static bool is_private(const plan_t *plan, const plan_program_t *program, plan_buffer_t buffer) {
  bool is_known = !program->in_place || !base_collective_counts_by_pair(plan->shape.collective);
  return is_known && buffer != PLAN_SCRATCH && plan->reach < PLAN_REACH_USER;
}

bool plan_stays(const plan_t *plan, const plan_program_t *program, int lane, size_t step,
                const plan_span_t *span) {
  if (!is_private(plan, program, span->buffer)) return false;
  for (int i = 0; i < plan->lanes; i++) {
    const plan_lane_t *other = &program->lanes[i];
    if (other->count > PLAN_LIVENESS_STEPS_MAX) return false;
    for (size_t at = i == lane ? step + 1 : 0; at < other->count; at++) {
      const plan_span_t *stored = stored_by(&other->steps[at]);
      if (stored == NULL || stored->rank != span->rank) continue;
      if (share_memory(plan, program, stored, span)) return false;
    }
  }
  return true;
}
