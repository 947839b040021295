/*
 * Turns a schedule into a plan. Numbers of scratch chunks are the file's until msccl_place_scratch
 * renumbers them; operands that a step receives only to reduce or to send on are held in chunks of
 * their own, numbered after the file's.
 */
#include <stdlib.h>

#include "base/alloc.h"
#include "base/names.h"
#include "plan/text.h"
#include "tools/collplan/msccl.h"

#define OWN_CHUNKS_MAX (1 << 22) /* of scratch, of all ranks, before they are renumbered */

typedef struct importer {
  const msccl_file_t *file;
  msccl_lines_t *lines;
  msccl_scratch_t scratch;
  plan_emitter_t e;
  const msccl_gpu_t *gpu;
  const msccl_block_t *block;
  const msccl_step_t *step;
  int32_t lane;
  int32_t **ends; /* [blocks of the gpu][steps]: the lane's last step up to there; -1: none */
  int64_t own_chunks;
} importer_t;

#define REFUSE(import, line, ...) msccl_refuse((import)->file->name, line, __VA_ARGS__)

/* ---- lines ----------------------------------------------------------------------------------*/

static coll_status_t lines_create(int32_t ranks, int32_t lanes, msccl_lines_t *lines) {
  *lines = (msccl_lines_t){.lanes = lanes, .count = (size_t)ranks * (size_t)lanes};
  return base_alloc(lines->count, sizeof *lines->of, "line numbers", (void **)&lines->of);
}

void msccl_lines_free(msccl_lines_t *lines) {
  for (size_t i = 0; lines->of != NULL && i < lines->count; i++) free(lines->of[i].numbers);
  free(lines->of);
  *lines = (msccl_lines_t){0};
}

int msccl_line_of(const msccl_lines_t *lines, int32_t rank, int32_t lane, int32_t step) {
  const struct msccl_lane_lines *of = &lines->of[rank * lines->lanes + lane];
  return step >= 0 && (size_t)step < of->count ? of->numbers[step] : 0;
}

/* Notes the line of the steps that the current lane has got since the last call. */
static coll_status_t note_lines(importer_t *import, int line) {
  struct msccl_lane_lines *of =
      &import->lines->of[import->e.rank * import->lines->lanes + import->lane];
  size_t count = import->e.program->lanes[import->lane].count;
  COLL_TRY(import->e.status);
  COLL_TRY(base_grow((void **)&of->numbers, &of->capacity, count + 1, sizeof *of->numbers,
                     "line numbers"));
  while (of->count < count) of->numbers[of->count++] = line;
  return COLL_OK;
}

/* ---- sizes ----------------------------------------------------------------------------------*/

static bool has_block_per_rank(coll_collective_t collective) {
  return collective == COLL_ALLGATHER || collective == COLL_ALLTOALL ||
         collective == COLL_REDUCE_SCATTER;
}

static coll_status_t find_parts(const msccl_file_t *file, int32_t *parts) {
  int32_t blocks = has_block_per_rank(file->collective) ? file->ranks : 1;
  *parts = file->chunks / blocks;
  if (file->chunks % blocks != 0) {
    return msccl_refuse(file->name, file->line,
                        "nchunksperloop is %d, which is no multiple of the %d ranks, as %s needs",
                        file->chunks, file->ranks, base_collective_name(file->collective));
  }
  if (*parts <= PLAN_TEXT_PARTS_MAX) return COLL_OK;
  return msccl_refuse(file->name, file->line, "a block of %d chunks; the maximum is %d", *parts,
                      PLAN_TEXT_PARTS_MAX);
}

/* i_chunks and o_chunks are those of the collective, or 0 where the buffer is the other one. */
static coll_status_t check_gpu(const msccl_file_t *file, const plan_t *plan, int32_t rank) {
  const msccl_gpu_t *gpu = &file->gpus[rank];
  for (int buffer = PLAN_INPUT; buffer <= PLAN_OUTPUT; buffer++) {
    int32_t wanted = plan_chunks(plan, rank, (plan_buffer_t)buffer), stated = gpu->chunks[buffer];
    if (stated == wanted || stated == 0) continue;
    return msccl_refuse(file->name, gpu->line,
                        "gpu %d has %c_chunks=\"%d\", where %s with nchunksperloop %d has %d", rank,
                        msccl_buffer_letters[buffer], stated,
                        base_collective_name(file->collective), file->chunks, wanted);
  }
  return COLL_OK;
}

/* ---- spans ----------------------------------------------------------------------------------*/

/* In place, INPUT that is also OUTPUT is named as OUTPUT. */
static plan_span_t named_as_output(const importer_t *import, plan_span_t span) {
  int32_t alias;
  if (!import->file->in_place || span.buffer != PLAN_INPUT) return span;
  alias = plan_alias(import->e.plan, import->e.rank, span.first);
  if (alias < 0 || plan_alias(import->e.plan, import->e.rank, span.first + span.count - 1) < 0) {
    return span;
  }
  span.buffer = PLAN_OUTPUT;
  span.first = alias;
  return span;
}

static coll_status_t take_span(const importer_t *import, plan_buffer_t buffer, int32_t first,
                               plan_span_t *span) {
  const msccl_step_t *step = import->step;
  int32_t rank = import->e.rank, count = step->count;
  bool is_scratch = buffer == PLAN_SCRATCH;
  int32_t chunks =
      is_scratch ? import->gpu->chunks[buffer] : plan_chunks(import->e.plan, rank, buffer);
  if (first < 0 || first > chunks - count) {
    return REFUSE(import, step->line,
                  "%s of chunks %d to %d of buffer %c of gpu %d, which has %d chunks",
                  msccl_type_names[step->type], first, first + count - 1,
                  msccl_buffer_letters[buffer], rank, chunks);
  }
  *span = named_as_output(
      import, (plan_span_t){.rank = rank, .buffer = buffer, .first = first, .count = count});
  return COLL_OK;
}

static coll_status_t take_src(const importer_t *import, plan_span_t *span) {
  return take_span(import, import->step->src_buffer, import->step->src_first, span);
}

static coll_status_t take_dst(const importer_t *import, plan_span_t *span) {
  return take_span(import, import->step->dst_buffer, import->step->dst_first, span);
}

/* Scratch chunks of the current lane for operands of the current step. */
static coll_status_t make_operands(importer_t *import, plan_span_t *span) {
  int32_t rank = import->e.rank, count = import->step->count;
  msccl_scratch_t *scratch = &import->scratch;
  size_t used = (size_t)(scratch->total[rank] - scratch->real[rank]);
  import->own_chunks += count;
  if (import->own_chunks > OWN_CHUNKS_MAX) {
    return REFUSE(import, import->step->line, "the schedule reduces more than %d chunks",
                  OWN_CHUNKS_MAX);
  }
  COLL_TRY(base_grow((void **)&scratch->lane[rank], &scratch->lane_capacity[rank],
                     used + (size_t)count, sizeof **scratch->lane, "scratch chunks"));
  for (int32_t i = 0; i < count; i++) scratch->lane[rank][used + (size_t)i] = import->lane;
  *span = plan_scratch(&import->e, scratch->total[rank], count);
  scratch->total[rank] += count;
  return COLL_OK;
}

/* ---- steps ----------------------------------------------------------------------------------*/

static bool receives(msccl_type_t type) {
  return type >= MSCCL_RECV && type <= MSCCL_RECV_REDUCE_COPY_SEND;
}

static bool sends(msccl_type_t type) {
  return type == MSCCL_SEND || type == MSCCL_RECV_COPY_SEND || type == MSCCL_RECV_REDUCE_SEND ||
         type == MSCCL_RECV_REDUCE_COPY_SEND;
}

static coll_status_t check_peers(const importer_t *import) {
  const msccl_block_t *block = import->block;
  const msccl_step_t *step = import->step;
  int32_t rank = import->e.rank;
  const char *type = msccl_type_names[step->type];
  if (sends(step->type) && (block->send < 0 || block->send == rank)) {
    return REFUSE(import, step->line, "%s in tb %d of gpu %d, which sends to %s", type, block->id,
                  rank, block->send < 0 ? "no rank (send=\"-1\")" : "itself");
  }
  if (receives(step->type) && (block->recv < 0 || block->recv == rank)) {
    return REFUSE(import, step->line, "%s in tb %d of gpu %d, which receives from %s", type,
                  block->id, rank, block->recv < 0 ? "no rank (recv=\"-1\")" : "itself");
  }
  return COLL_OK;
}

static void emit_recv(importer_t *import, plan_span_t dst) {
  plan_emit_recv_on(&import->e, import->lane, import->block->recv, import->block->channel, dst);
}

static void emit_send(importer_t *import, plan_span_t src) {
  plan_emit_send_on(&import->e, import->lane, import->block->send, import->block->channel, src);
}

/* dst = dst op src */
static void emit_reduce(importer_t *import, plan_span_t dst, plan_span_t src) {
  const plan_span_t sources[] = {dst, src};
  plan_emit_reduce(&import->e, import->lane, dst, sources, 2);
}

static bool same_span(const plan_span_t *a, const plan_span_t *b) {
  return a->buffer == b->buffer && a->first == b->first;
}

/* rrs, rrc and rrcs. Where the result is stored elsewhere than the own operand, the message is
 * received there; else into chunks of the lane's own. */
static coll_status_t emit_recv_reduce(importer_t *import) {
  msccl_type_t type = import->step->type;
  plan_span_t src, dst, operands;
  COLL_TRY(take_src(import, &src));
  if (type == MSCCL_RECV_REDUCE_SEND) {
    COLL_TRY(make_operands(import, &dst));
  } else {
    COLL_TRY(take_dst(import, &dst));
  }
  if (same_span(&dst, &src)) {
    COLL_TRY(make_operands(import, &operands));
    emit_recv(import, operands);
    emit_reduce(import, dst, operands);
  } else {
    emit_recv(import, dst);
    emit_reduce(import, dst, src);
  }
  if (sends(type)) emit_send(import, dst);
  return COLL_OK;
}

static coll_status_t emit_plain(importer_t *import) {
  plan_span_t src, dst;
  switch (import->step->type) {
    case MSCCL_SEND:
      COLL_TRY(take_src(import, &src));
      emit_send(import, src);
      return COLL_OK;
    case MSCCL_RECV:
    case MSCCL_RECV_COPY_SEND:
      COLL_TRY(take_dst(import, &dst));
      emit_recv(import, dst);
      if (sends(import->step->type)) emit_send(import, dst);
      return COLL_OK;
    case MSCCL_COPY:
    case MSCCL_REDUCE:
      COLL_TRY(take_src(import, &src));
      COLL_TRY(take_dst(import, &dst));
      if (import->step->type == MSCCL_COPY) {
        plan_emit_copy(&import->e, import->lane, dst, src);
      } else {
        emit_reduce(import, dst, src);
      }
      return COLL_OK;
    default: return COLL_OK;
  }
}

static int32_t find_block(const msccl_gpu_t *gpu, int32_t id) {
  for (size_t i = 0; i < gpu->count; i++) {
    if (gpu->blocks[i].id == id) return (int32_t)i;
  }
  return -1;
}

/* Emits the `after` of depid and deps; its step is set by set_afters. */
static coll_status_t emit_after(importer_t *import, size_t index) {
  const msccl_step_t *step = import->step;
  int32_t other = find_block(import->gpu, step->dep_block);
  if (step->dep_block < 0) return COLL_OK;
  if (other < 0 || (size_t)step->dep_step >= import->gpu->blocks[other].count) {
    return REFUSE(import, step->line, "waits for step %d of tb %d, which gpu %d does not have",
                  step->dep_step, step->dep_block, import->e.rank);
  }
  if (other != import->lane) {
    plan_emit_after(&import->e, import->lane, other, step->dep_step);
    return COLL_OK;
  }
  if ((size_t)step->dep_step < index) return COLL_OK; /* steps of a thread block are in order */
  return REFUSE(import, step->line, "deadlock: waits for step %d of its own tb %d, which is later",
                step->dep_step, step->dep_block);
}

static coll_status_t import_step(importer_t *import, size_t index) {
  import->step = &import->block->steps[index];
  msccl_type_t type = import->step->type;
  COLL_TRY(check_peers(import));
  COLL_TRY(emit_after(import, index));
  if (type == MSCCL_RECV_REDUCE_SEND || type == MSCCL_RECV_REDUCE_COPY ||
      type == MSCCL_RECV_REDUCE_COPY_SEND) {
    COLL_TRY(emit_recv_reduce(import));
  } else {
    COLL_TRY(emit_plain(import));
  }
  COLL_TRY(note_lines(import, import->step->line));
  import->ends[import->lane][index] = (int32_t)import->e.program->lanes[import->lane].count - 1;
  return COLL_OK;
}

/* Emits a <copy>, which comes before all steps. In place it may copy a chunk to itself. */
static coll_status_t import_copy(importer_t *import, const msccl_copy_t *copy, bool *copied) {
  const msccl_step_t step = {.line = copy->line, .type = MSCCL_COPY, .count = 1};
  plan_span_t src, dst;
  import->step = &step;
  COLL_TRY(take_span(import, PLAN_INPUT, copy->from, &src));
  COLL_TRY(take_span(import, PLAN_OUTPUT, copy->to, &dst));
  if (same_span(&src, &dst)) return COLL_OK;
  plan_emit_copy(&import->e, 0, dst, src);
  *copied = true;
  return note_lines(import, copy->line);
}

/* ---- ranks ----------------------------------------------------------------------------------*/

/* Makes each `after` name the lane's step instead of the thread block's. */
static coll_status_t set_afters(importer_t *import, int32_t first_after) {
  for (int32_t lane = 0; lane < (int32_t)import->gpu->count; lane++) {
    plan_lane_t *steps = &import->e.program->lanes[lane];
    for (size_t i = 0; i < steps->count; i++) {
      plan_step_t *step = &steps->steps[i];
      if (step->kind != PLAN_AFTER || (i == 0 && lane > 0 && first_after >= 0)) continue;
      int32_t end = import->ends[step->after.lane][step->after.step];
      if (end < 0) {
        return REFUSE(import, msccl_line_of(import->lines, import->e.rank, lane, (int32_t)i),
                      "waits for a nop that waits for nothing: remove depid and deps");
      }
      step->after.step = end;
    }
  }
  return COLL_OK;
}

static coll_status_t import_copies(importer_t *import, int32_t *last) {
  bool copied = false;
  *last = -1;
  import->lane = 0;
  for (size_t i = 0; i < import->gpu->copy_count; i++) {
    COLL_TRY(import_copy(import, &import->gpu->copies[i], &copied));
  }
  if (!copied) return COLL_OK;
  *last = (int32_t)import->e.program->lanes[0].count - 1;
  for (import->lane = 1; import->lane < (int32_t)import->gpu->count; import->lane++) {
    plan_emit_after(&import->e, import->lane, 0, *last);
    COLL_TRY(note_lines(import, import->gpu->copies[0].line));
  }
  return COLL_OK;
}

static coll_status_t import_blocks(importer_t *import) {
  int32_t last_copy;
  COLL_TRY(import_copies(import, &last_copy));
  for (size_t i = 0; i < import->gpu->count; i++) {
    import->block = &import->gpu->blocks[i];
    import->lane = (int32_t)i;
    COLL_TRY(base_alloc(import->block->count, sizeof **import->ends, "steps",
                        (void **)&import->ends[i]));
    for (size_t at = 0; at < import->block->count; at++) COLL_TRY(import_step(import, at));
  }
  return set_afters(import, last_copy);
}

static coll_status_t import_gpu(importer_t *import, plan_t *plan, int32_t rank) {
  import->gpu = &import->file->gpus[rank];
  import->e = (plan_emitter_t){.plan = plan, .program = &plan->programs[rank], .rank = rank};
  import->e.program->in_place = import->file->in_place;
  import->scratch.real[rank] = import->scratch.total[rank] = import->gpu->chunks[PLAN_SCRATCH];
  import->own_chunks += import->gpu->chunks[PLAN_SCRATCH];
  if (import->own_chunks > OWN_CHUNKS_MAX) {
    return REFUSE(import, import->gpu->line, "more than %d chunks of scratch", OWN_CHUNKS_MAX);
  }
  COLL_TRY(check_gpu(import->file, plan, rank));
  COLL_TRY(base_alloc(import->gpu->count + 1, sizeof *import->ends, "thread blocks",
                      (void **)&import->ends));
  coll_status_t status = import_blocks(import);
  for (size_t i = 0; i < import->gpu->count; i++) free(import->ends[i]);
  free(import->ends);
  return status == COLL_OK ? import->e.status : status;
}

/* ---- the plan -------------------------------------------------------------------------------*/

static void note_message(plan_t *plan, const plan_span_t *span) {
  if (span->count > plan->message_chunks) plan->message_chunks = span->count;
}

static void measure_messages(plan_t *plan) {
  for (int32_t i = 0; i < plan->shape.size * plan->lanes; i++) {
    const plan_lane_t *lane = &plan->programs[i / plan->lanes].lanes[i % plan->lanes];
    for (size_t at = 0; at < lane->count; at++) {
      const plan_step_t *step = &lane->steps[at];
      if (step->kind == PLAN_SEND) note_message(plan, &step->send.src);
      if (step->kind == PLAN_RECV) note_message(plan, &step->recv.dst);
    }
  }
}

/* The structural check, with the line of the step. */
static coll_status_t check_plan(const importer_t *import, const plan_t *plan) {
  for (int32_t rank = 0; rank < plan->shape.size; rank++) {
    if (plan_check_program(plan, rank) == COLL_OK) continue;
    for (int32_t lane = 0; lane < plan->lanes; lane++) {
      for (size_t step = 0; step < plan->programs[rank].lanes[lane].count; step++) {
        if (plan_check_step(plan, rank, lane, step) == COLL_OK) continue;
        return REFUSE(import, msccl_line_of(import->lines, rank, lane, (int32_t)step), "%s",
                      base_last_error());
      }
    }
    COLL_TRY(plan_check_program(plan, rank) == COLL_OK
                 ? COLL_OK
                 : REFUSE(import, import->file->gpus[rank].line, "%s", base_last_error()));
  }
  return COLL_OK;
}

static coll_status_t fill(importer_t *import, plan_t *plan) {
  const msccl_file_t *file = import->file;
  size_t ranks = (size_t)file->ranks;
  msccl_scratch_t *scratch = &import->scratch;
  int32_t lanes = 1;
  for (size_t i = 0; i < ranks; i++) {
    if ((int32_t)file->gpus[i].count > lanes) lanes = (int32_t)file->gpus[i].count;
  }
  COLL_TRY(plan_set_lanes(plan, lanes));
  COLL_TRY(find_parts(file, &plan->parts));
  plan->depth = PLAN_DEPTH_MAX;
  plan->reach = PLAN_REACH_OWN;
  COLL_TRY(lines_create(file->ranks, lanes, import->lines));
  COLL_TRY(base_alloc(ranks, sizeof(int32_t), "scratch", (void **)&scratch->real));
  COLL_TRY(base_alloc(ranks, sizeof(int32_t), "scratch", (void **)&scratch->total));
  COLL_TRY(base_alloc(ranks, sizeof(int32_t *), "scratch", (void **)&scratch->lane));
  COLL_TRY(base_alloc(ranks, sizeof(size_t), "scratch", (void **)&scratch->lane_capacity));
  for (int32_t rank = 0; rank < file->ranks; rank++) COLL_TRY(import_gpu(import, plan, rank));
  measure_messages(plan);
  COLL_TRY(msccl_place_scratch(scratch, plan));
  return check_plan(import, plan);
}

coll_status_t msccl_import(const msccl_file_t *file, plan_t **plan, msccl_lines_t *lines) {
  importer_t import = {.file = file, .lines = lines};
  const plan_shape_t shape = {
      .collective = file->collective, .size = file->ranks, .root = file->root};
  plan_t *made = NULL;
  *lines = (msccl_lines_t){0};
  COLL_TRY(plan_create(&shape, file->algorithm, &made));
  import.scratch.file_name = file->name;
  import.scratch.lines = lines;
  coll_status_t status = fill(&import, made);
  for (int32_t rank = 0; import.scratch.lane != NULL && rank < file->ranks; rank++) {
    free(import.scratch.lane[rank]);
  }
  free(import.scratch.lane);
  free(import.scratch.lane_capacity);
  free(import.scratch.real);
  free(import.scratch.total);
  if (status != COLL_OK) {
    plan_free(made);
    msccl_lines_free(lines);
    return status;
  }
  *plan = made;
  return COLL_OK;
}
