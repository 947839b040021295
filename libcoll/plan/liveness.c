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
