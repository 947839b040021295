/*
 * An action never covers a step that orders ranks or lanes, so nobody can tell its steps apart. The
 * copies that join one read its result or, behind a copy, the same source; in place, where source
 * and destination are the same elements, these are stored only when they have been read: the
 * verifier has proved that no step's destination overlaps a source in another way.
 */
#include "plan/fuse.h"

#include "plan/liveness.h"

static bool peeks_all(const void *context, int32_t peer) {
  (void)context, (void)peer;
  return true;
}

const plan_capabilities_t plan_host_capabilities = {
    .dsts_max = PLAN_FUSE_DSTS_MAX, .operands_max = INT32_MAX, .watched = true, .peeks = peeks_all};

const plan_capabilities_t plan_gpu_capabilities = {.dsts_max = PLAN_FUSE_GPU_OPERANDS_MAX,
                                                   .operands_max = PLAN_FUSE_GPU_OPERANDS_MAX,
                                                   .copies = true,
                                                   .pulls = true};

/* The search: the lane and what its executor can do. */
typedef struct fusing {
  const plan_t *plan;
  int32_t rank, number;
  const plan_program_t *program;
  const plan_lane_t *lane;
  const plan_capabilities_t *can;
} fusing_t;

/* ---- copies ---------------------------------------------------------------------------------*/

static bool reads_peers(const fusing_t *f, const plan_step_t *step) {
  if (f->plan->reach != PLAN_REACH_READ || step->kind != PLAN_REDUCE) return false;
  for (int32_t i = 0; i < step->reduce.source_count; i++) {
    const plan_span_t *source = &f->program->sources[step->reduce.first_source + i];
    if (source->buffer != PLAN_SCRATCH && source->rank != f->rank) return true;
  }
  return false;
}

/* Whether an AFTER of another lane names the step. */
static bool is_watched(const fusing_t *f, size_t step) {
  for (int32_t i = 0; i < f->plan->lanes && f->plan->lanes > 1; i++) {
    const plan_lane_t *lane = &f->program->lanes[i];
    for (size_t at = 0; at < lane->count; at++) {
      const plan_step_t *after = &lane->steps[at];
      if (after->kind == PLAN_AFTER && after->after.lane == f->number &&
          (size_t)after->after.step == step) {
        return true;
      }
    }
  }
  return false;
}

/* Whether the step copies the result of the action, or what the action copies. */
static bool joins(const fusing_t *f, const plan_step_t *action, size_t step) {
  const plan_step_t *copy = &f->lane->steps[step];
  if (copy->kind != PLAN_COPY) return false;
  bool is_copy = action->kind == PLAN_COPY;
  const plan_span_t *result = is_copy ? &action->copy.dst : &action->reduce.dst;
  const plan_span_t *src = &copy->copy.src;
  bool same = plan_spans_equal(src, result);
  if (is_copy) same = same || plan_spans_equal(src, &action->copy.src);
  /* a reduction of one source is a copy */
  if (!is_copy && f->can->copies && action->reduce.source_count == 1) {
    same = same || plan_spans_equal(src, &f->program->sources[action->reduce.first_source]);
  }
  return same && (f->can->watched || !is_watched(f, step));
}

/* The end of the copies behind the copy or reduction. */
static size_t end_of_copies(const fusing_t *f, size_t step) {
  const plan_step_t *action = &f->lane->steps[step];
  bool is_copy = action->kind == PLAN_COPY;
  size_t end = step + 1;
  if (is_copy && !f->can->copies) return end;
  if (!f->can->pulls && reads_peers(f, action)) return end;
  int64_t sources = is_copy ? 1 : action->reduce.source_count;
  while (end < f->lane->count && (int64_t)(end - step) < f->can->dsts_max &&
         sources + (int64_t)(end - step) < f->can->operands_max && joins(f, action, end)) {
    end++;
  }
  return end;
}

/* ---- messages -------------------------------------------------------------------------------*/

static const plan_span_t *received(const fusing_t *f, size_t step) {
  return &f->lane->steps[step].recv.dst;
}

/* Whether the span lies in one piece. */
static bool is_whole(const fusing_t *f, const plan_span_t *span) {
  int32_t parts = f->plan->parts;
  return !f->can->splits[span->buffer] ||
         span->first / parts == (span->first + span->count - 1) / parts;
}

/* Whether the reduction at `at`, with the copies up to `end`, alone reads what the RECV receives.
 */
static bool is_read_by_it_alone(const fusing_t *f, size_t recv, size_t at, size_t end) {
  const plan_span_t *span = received(f, recv);
  const plan_step_t *step = &f->lane->steps[at];
  int32_t reads = 0;
  for (int32_t i = 0; i < step->reduce.source_count; i++) {
    const plan_span_t *source = &f->program->sources[step->reduce.first_source + i];
    if (plan_spans_equal(source, span)) {
      reads++;
    } else if (plan_spans_overlap(source, span)) {
      return false;
    }
  }
  if (plan_spans_overlap(&step->reduce.dst, span)) return false;
  for (size_t copy = at + 1; copy < end; copy++) {
    if (plan_spans_overlap(&f->lane->steps[copy].copy.dst, span)) return false;
  }
  return reads > 0 && !plan_is_read_later(f->program, f->lane, end, span);
}

/* Whether the message can stay with the transport: a FIFO shows its first message only. */
static bool can_stay(const fusing_t *f, size_t recv, size_t at) {
  int32_t peer = f->lane->steps[recv].recv.peer;
  for (size_t i = recv + 1; i < at; i++) {
    if (f->lane->steps[i].recv.peer == peer) return false;
  }
  return received(f, recv)->buffer == PLAN_SCRATCH &&
         (f->plan->multicast || f->can->peeks(f->can->context, peer));
}

static bool spans_are_whole(const fusing_t *f, size_t at, size_t end) {
  const plan_step_t *step = &f->lane->steps[at];
  bool whole = is_whole(f, &step->reduce.dst);
  for (int32_t i = 0; i < step->reduce.source_count && whole; i++) {
    whole = is_whole(f, &f->program->sources[step->reduce.first_source + i]);
  }
  for (size_t copy = at + 1; copy < end && whole; copy++) {
    whole = is_whole(f, &f->lane->steps[copy].copy.dst);
  }
  return whole;
}

/* Whether the reduction at `at` reads all messages of the RECVs from `first` on in place. A message
 * that waits for others occupies a place of its FIFO, so with several RECVs the plan must need
 * fewer places than there are. */
static bool reads_in_place(const fusing_t *f, size_t first, size_t at, size_t end) {
  const plan_t *plan = f->plan;
  if (f->can->peeks == NULL || plan->reach != PLAN_REACH_OWN || plan->lanes != 1) return false;
  if (at - first > 1 && plan->depth >= PLAN_FIFO_DEPTH) return false;
  if (f->lane->count > PLAN_LIVENESS_STEPS_MAX || !spans_are_whole(f, at, end)) return false;
  for (size_t recv = first; recv < at; recv++) {
    if (!can_stay(f, recv, at) || !is_read_by_it_alone(f, recv, at, end)) return false;
  }
  return true;
}

/* ---- all ------------------------------------------------------------------------------------*/

static plan_fused_t of_steps(size_t first, size_t reduction, size_t end) {
  return (plan_fused_t){
      .first = (uint32_t)first, .end = (uint32_t)end, .reduction = (uint32_t)reduction};
}

static plan_fused_t fuse_recv(const fusing_t *f, size_t step) {
  size_t at = step;
  while (at < f->lane->count && f->lane->steps[at].kind == PLAN_RECV) at++;
  if (at < f->lane->count && f->lane->steps[at].kind == PLAN_REDUCE) {
    size_t end = end_of_copies(f, at);
    if (reads_in_place(f, step, at, end)) return of_steps(step, at, end);
  }
  return of_steps(step, step + 1, step + 1);
}

plan_fused_t plan_fuse(const plan_t *plan, const plan_program_t *program, int32_t rank,
                       int32_t lane, size_t step, const plan_capabilities_t *can) {
  const fusing_t f = {.plan = plan,
                      .rank = rank,
                      .number = lane,
                      .program = program,
                      .lane = &program->lanes[lane],
                      .can = can};
  size_t end = step + 1;
  switch (f.lane->steps[step].kind) {
    case PLAN_RECV: return fuse_recv(&f, step);
    case PLAN_REDUCE: return of_steps(step, step, end_of_copies(&f, step));
    case PLAN_COPY: end = end_of_copies(&f, step); break;
    case PLAN_SEND: end = step + (plan->multicast ? (size_t)plan->shape.size - 1 : 1); break;
    default: break;
  }
  return of_steps(step, end, end);
}
