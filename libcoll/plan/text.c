/* Writes plans as text. */
#include "plan/text.h"

#include <errno.h>

#include "base/names.h"

static void write_span(const plan_span_t *span, int rank, FILE *out) {
  if (span->rank != rank) fprintf(out, "%d.", span->rank);
  fprintf(out, "%s[%d+%d]", plan_buffer_name(span->buffer), span->first, span->count);
}

static void write_reduce(const plan_program_t *program, int rank, const plan_step_t *step,
                         FILE *out) {
  write_span(&step->reduce.dst, rank, out);
  for (int32_t i = 0; i < step->reduce.source_count; i++) {
    fputs(i == 0 ? " <- " : ", ", out);
    write_span(&program->sources[step->reduce.first_source + i], rank, out);
  }
}

static void write_peer(int32_t peer, int32_t channel, int lane, FILE *out) {
  fprintf(out, "%d", peer);
  if (channel != lane) fprintf(out, ":%d", channel);
}

void plan_text_write_step(const plan_t *plan, int rank, int lane, const plan_step_t *step,
                          FILE *out) {
  fprintf(out, "%s ", plan_step_kind_name(step->kind));
  switch (step->kind) {
    case PLAN_COPY:
      write_span(&step->copy.dst, rank, out);
      fputs(" <- ", out);
      write_span(&step->copy.src, rank, out);
      break;
    case PLAN_REDUCE: write_reduce(&plan->programs[rank], rank, step, out); break;
    case PLAN_SEND:
      write_peer(step->send.peer, step->send.channel, lane, out);
      fputs(" <- ", out);
      write_span(&step->send.src, rank, out);
      break;
    case PLAN_RECV:
      write_peer(step->recv.peer, step->recv.channel, lane, out);
      fputs(" -> ", out);
      write_span(&step->recv.dst, rank, out);
      break;
    case PLAN_SIGNAL: fprintf(out, "%d", step->signal.peer); break;
    case PLAN_WAIT: fprintf(out, "%d", step->wait.peer); break;
    case PLAN_AFTER: fprintf(out, "%d:%d", step->after.lane, step->after.step); break;
    case PLAN_STEP_KIND_COUNT: break;
  }
}

static void write_header(const plan_t *plan, FILE *out) {
  fprintf(out, "plan %s %s\n", base_collective_name(plan->shape.collective), plan->algorithm);
  fprintf(out, "ranks %d\nroot %d\n", plan->shape.size, plan->shape.root);
  fprintf(out, "parts %d\nscratch %d\nlanes %d\n", plan->parts, plan->scratch_chunks, plan->lanes);
  fprintf(out, "depth %d\nmessage %d\nreach %s\n", plan->depth, plan->message_chunks,
          plan_reach_name(plan->reach));
  if (plan->multicast) fprintf(out, "multicast 1\n");
  if (plan->own_scratch) fprintf(out, "own_scratch 1\n");
  if (plan->order == PLAN_ORDER_ANY) {
    fprintf(out, "order any  # ranks may hold different bits\n");
  } else if (plan->order != PLAN_ORDER_FIXED) {
    fprintf(out, "order %s\n", plan_order_name(plan->order));
  }
}

static void write_program(const plan_t *plan, int rank, FILE *out) {
  const plan_program_t *program = &plan->programs[rank];
  fprintf(out, "\nrank %d%s\n", rank, program->in_place ? " in-place" : "");
  for (int lane = 0; lane < plan->lanes; lane++) {
    if (plan->lanes > 1) fprintf(out, "lane %d\n", lane);
    for (size_t i = 0; i < program->lanes[lane].count; i++) {
      fputs("  ", out);
      plan_text_write_step(plan, rank, lane, &program->lanes[lane].steps[i], out);
      fputc('\n', out);
    }
  }
}

static coll_status_t finish(FILE *out) {
  if (fflush(out) == 0 && !ferror(out)) return COLL_OK;
  return base_fail_errno(COLL_ERROR_SYSTEM, "cannot write the plan");
}

coll_status_t plan_text_write(const plan_t *plan, FILE *out) {
  write_header(plan, out);
  for (int32_t rank = 0; rank < plan->shape.size; rank++) write_program(plan, rank, out);
  fputs("end\n", out);
  return finish(out);
}

coll_status_t plan_text_write_rank(const plan_t *plan, int rank, FILE *out) {
  write_header(plan, out);
  write_program(plan, rank, out);
  return finish(out);
}
