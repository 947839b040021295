/* Translates a plan's program. Blocks of the buffers are cut into parts, so a span is cut where it
 * crosses from one block to the next. */
#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "device/cuda/bind.h"
#include "device/cuda/compute.h"
#include "plan/fuse.h"

typedef struct builder {
  const plan_t *plan;
  const plan_program_t *program;
  int rank;
  gpu_program_t head;
  uint32_t lane_ends[PLAN_LANES_MAX];
  gpu_action_t *actions;
  size_t action_count, action_capacity;
  gpu_piece_t *pieces;
  size_t piece_count, piece_capacity;
} builder_t;

/* ---- pieces ---------------------------------------------------------------------------------*/

static int32_t base_of(const builder_t *b, const plan_span_t *span) {
  int32_t size = b->plan->shape.size;
  if (span->buffer == PLAN_SCRATCH) return GPU_BASE_SCRATCH + span->rank;
  if (span->rank == b->rank) return span->buffer == PLAN_INPUT ? GPU_BASE_INPUT : GPU_BASE_OUTPUT;
  int32_t first = GPU_BASE_SCRATCH + (span->buffer == PLAN_INPUT ? size : 2 * size);
  return first + span->rank;
}

static void note_reach(builder_t *b, const plan_span_t *span) {
  if (span->rank == b->rank) return;
  b->head.reaches_input |= span->buffer == PLAN_INPUT;
  b->head.reaches_output |= span->buffer == PLAN_OUTPUT;
}

static int32_t pieces_of(const plan_t *plan, const plan_span_t *span) {
  int32_t last = span->first + span->count - 1;
  return last / plan->parts - span->first / plan->parts + 1;
}

static gpu_piece_t piece_of(const builder_t *b, const plan_span_t *span, int32_t index) {
  int32_t parts = b->plan->parts, block = span->first / parts + index, start = block * parts;
  int32_t first = span->first - start, end = span->first + span->count - start;
  return (gpu_piece_t){.base = base_of(b, span),
                       .block = block,
                       .first = first > 0 ? first : 0,
                       .end = end < parts ? end : parts};
}

static coll_status_t add_piece(builder_t *b, const plan_span_t *span, int32_t index) {
  COLL_TRY(base_grow((void **)&b->pieces, &b->piece_capacity, b->piece_count + 1, sizeof *b->pieces,
                     "a program's pieces"));
  b->pieces[b->piece_count++] = piece_of(b, span, index);
  note_reach(b, span);
  return COLL_OK;
}

/* Piece by piece: that of the destination, then those of the sources. */
static coll_status_t add_pieces(builder_t *b, gpu_action_t *action, const plan_span_t *dst,
                                const plan_span_t sources[], int32_t source_count) {
  action->operands = (uint16_t)(1 + source_count);
  action->piece_count = pieces_of(b->plan, dst);
  action->pieces = (uint32_t)b->piece_count;
  for (int32_t piece = 0; piece < action->piece_count; piece++) {
    COLL_TRY(add_piece(b, dst, piece));
    for (int32_t i = 0; i < source_count; i++) COLL_TRY(add_piece(b, &sources[i], piece));
  }
  return COLL_OK;
}

/* ---- actions --------------------------------------------------------------------------------*/

static coll_status_t translate_reduce(builder_t *b, const plan_step_t *step, gpu_action_t *action) {
  int32_t count = step->reduce.source_count;
  if (count > GPU_OPERANDS_MAX) {
    return base_fail(COLL_ERROR_UNSUPPORTED,
                     "plan %s reduces %d operands in one step; the GPU kernel takes at most %d",
                     b->plan->algorithm, count, GPU_OPERANDS_MAX);
  }
  action->kind = GPU_REDUCE;
  return add_pieces(b, action, &step->reduce.dst, &b->program->sources[step->reduce.first_source],
                    count);
}

static coll_status_t translate_message(builder_t *b, gpu_action_kind_t kind, int32_t peer,
                                       int32_t channel, const plan_span_t *span,
                                       gpu_action_t *action) {
  action->kind = (uint8_t)kind;
  action->peer = peer;
  action->channel = channel;
  if (channel >= b->plan->lanes) {
    return base_fail(COLL_ERROR_UNSUPPORTED,
                     "plan %s has messages on channel %d, and %d lanes: the GPU kernel numbers "
                     "channels as lanes",
                     b->plan->algorithm, channel, b->plan->lanes);
  }
  return add_pieces(b, action, span, NULL, 0);
}

static coll_status_t translate(builder_t *b, int32_t lane, const plan_step_t *step,
                               gpu_action_t *action) {
  *action = (gpu_action_t){.channel = lane};
  switch (step->kind) {
    case PLAN_COPY:
      action->kind = GPU_COPY;
      return add_pieces(b, action, &step->copy.dst, &step->copy.src, 1);
    case PLAN_REDUCE: return translate_reduce(b, step, action);
    case PLAN_SEND:
      return translate_message(b, GPU_SEND, step->send.peer, step->send.channel, &step->send.src,
                               action);
    case PLAN_RECV:
      return translate_message(b, GPU_RECV, step->recv.peer, step->recv.channel, &step->recv.dst,
                               action);
    case PLAN_SIGNAL:
      action->kind = GPU_SIGNAL;
      action->peer = step->signal.peer;
      return COLL_OK;
    case PLAN_WAIT:
      action->kind = GPU_WAIT;
      action->peer = step->wait.peer;
      return COLL_OK;
    case PLAN_AFTER:
      action->kind = GPU_AFTER;
      action->peer = step->after.lane;
      action->channel = step->after.step;
      return COLL_OK;
    case PLAN_STEP_KIND_COUNT: break;
  }
  return base_fail(COLL_ERROR_INTERNAL, "plan %s holds a step of unknown kind", b->plan->algorithm);
}

static coll_status_t translate_lane(builder_t *b, int32_t lane) {
  const plan_lane_t *steps = &b->program->lanes[lane];
  for (size_t i = 0; i < steps->count; i++) {
    COLL_TRY(base_grow((void **)&b->actions, &b->action_capacity, b->action_count + 1,
                       sizeof *b->actions, "a program's actions"));
    COLL_TRY(translate(b, lane, &steps->steps[i], &b->actions[b->action_count]));
    b->action_count++;
  }
  b->lane_ends[lane] = (uint32_t)b->action_count;
  if (steps->count + 3 > b->head.stride) b->head.stride = (uint32_t)steps->count + 3;
  return COLL_OK;
}

static void mark_watched(builder_t *b) {
  for (size_t i = 0; i < b->action_count; i++) {
    const gpu_action_t *action = &b->actions[i];
    if (action->kind != GPU_AFTER) continue;
    uint32_t begin = action->peer == 0 ? 0 : b->lane_ends[action->peer - 1];
    b->actions[begin + (uint32_t)action->channel].watched = 1;
  }
}

/* ---- fused copies ---------------------------------------------------------------------------*/

_Static_assert(PLAN_FUSE_GPU_OPERANDS_MAX == GPU_OPERANDS_MAX, "what the kernel can look up");

/* Has the copies that join an action carried out with it. */
static void fuse_lane(const builder_t *b, int32_t lane) {
  size_t count = b->program->lanes[lane].count, begin = b->lane_ends[lane] - count;
  for (size_t step = 0; step < count;) {
    const plan_fused_t fused =
        plan_fuse(b->plan, b->program, b->rank, lane, step, &plan_gpu_capabilities);
    gpu_action_t *action = &b->actions[begin + step];
    if (action->kind == GPU_COPY || action->kind == GPU_REDUCE) {
      action->fused = (int32_t)(fused.end - fused.first - 1);
    }
    step = fused.end;
  }
}

/* ---- the whole ------------------------------------------------------------------------------*/

/* One allocation: the header, the ends of lanes, the actions, the pieces. */
coll_status_t gpu_program_alloc(const gpu_program_t *head, size_t actions, size_t pieces,
                                const char *name, gpu_program_t **program) {
  size_t ends = (size_t)head->lanes * sizeof(uint32_t);
  size_t actions_at = base_round_up(sizeof *head + ends, GPU_VECTOR_BYTES);
  size_t action_bytes = actions * sizeof(gpu_action_t);
  size_t pieces_at = base_round_up(actions_at + action_bytes, GPU_VECTOR_BYTES);
  size_t bytes = pieces_at + pieces * sizeof(gpu_piece_t);
  if (bytes > UINT32_MAX) {
    return base_fail(COLL_ERROR_UNSUPPORTED, "%s is too long for the GPU kernel: %zu bytes", name,
                     bytes);
  }
  COLL_TRY(base_alloc(1, bytes, "a program", (void **)program));
  **program = *head;
  (*program)->actions_at = (uint32_t)actions_at;
  (*program)->pieces_at = (uint32_t)pieces_at;
  (*program)->bytes = (uint32_t)bytes;
  return COLL_OK;
}

static coll_status_t assemble(const builder_t *b, gpu_program_t **program) {
  char name[PLAN_NAME_BYTES + 8];
  snprintf(name, sizeof name, "plan %s", b->plan->algorithm);
  COLL_TRY(gpu_program_alloc(&b->head, b->action_count, b->piece_count, name, program));
  char *made = (char *)*program;
  size_t ends = (size_t)b->head.lanes * sizeof *b->lane_ends;
  memcpy(made + sizeof b->head, b->lane_ends, ends);
  if (b->action_count > 0) {
    memcpy(made + (*program)->actions_at, b->actions, b->action_count * sizeof *b->actions);
  }
  if (b->piece_count > 0) {
    memcpy(made + (*program)->pieces_at, b->pieces, b->piece_count * sizeof *b->pieces);
  }
  return COLL_OK;
}

static coll_status_t build(builder_t *b, gpu_program_t **program) {
  for (int32_t lane = 0; lane < b->plan->lanes; lane++) COLL_TRY(translate_lane(b, lane));
  mark_watched(b);
  for (int32_t lane = 0; lane < b->plan->lanes; lane++) fuse_lane(b, lane);
  return assemble(b, program);
}

/* Ranks build only their own programs, and must agree: where an exact plan has one rank that
 * reduces the operands of all, the others do not see it. */
static coll_status_t check_operands(const plan_t *plan) {
  if (plan->order != PLAN_ORDER_EXACT || plan->shape.size <= GPU_OPERANDS_MAX) return COLL_OK;
  return base_fail(COLL_ERROR_UNSUPPORTED,
                   "plan %s reduces the operands of %d ranks in one step; the GPU kernel takes at "
                   "most %d",
                   plan->algorithm, plan->shape.size, GPU_OPERANDS_MAX);
}

coll_status_t gpu_bind_program(const plan_t *plan, int rank, gpu_program_t **program) {
  COLL_TRY(check_operands(plan));
  builder_t b = {.plan = plan, .program = &plan->programs[rank], .rank = rank};
  b.head = (gpu_program_t){.rank = rank,
                           .size = plan->shape.size,
                           .lanes = plan->lanes,
                           .parts = plan->parts,
                           .depth = plan->depth,
                           .message_chunks = plan->message_chunks,
                           .scratch_chunks = plan->scratch_chunks,
                           .is_own = plan->reach == PLAN_REACH_OWN,
                           .is_exact = plan->order == PLAN_ORDER_EXACT,
                           .enters = plan_reach_exchanges(plan->reach),
                           .input_blocks = plan_blocks(&plan->shape, rank, PLAN_INPUT),
                           .output_blocks = plan_blocks(&plan->shape, rank, PLAN_OUTPUT)};
  coll_status_t status = build(&b, program);
  free(b.actions);
  free(b.pieces);
  return status;
}
