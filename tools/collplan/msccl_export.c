/*
 * Writes plans as schedules. A thread block has one peer that it sends to, one that it receives
 * from and one channel, so the steps of a lane are divided among as many blocks as it needs. Where
 * consecutive steps of a lane are in different blocks, the later one depends on the earlier one. A
 * step can depend on one other; further ones are carried by nops before it.
 */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/names.h"
#include "tools/collplan/msccl.h"

/* A step of the schedule that is written. */
typedef struct out_step {
  msccl_type_t type;
  plan_span_t src, dst;
  int32_t dep_block, dep_step; /* -1: none. Until resolve(): a lane and its step, if by_lane */
  bool by_lane, is_awaited;
} out_step_t;

typedef struct out_block {
  int32_t send, recv, channel; /* -1: none yet */
  out_step_t *steps;
  size_t count, capacity;
} out_block_t;

/* Where a step of a lane ends: the block and its step. */
typedef struct out_place {
  int32_t block, step;
} out_place_t;

typedef struct exporter {
  const plan_t *plan;
  int32_t rank;
  int32_t operands; /* chunks of scratch, behind the plan's, for operands of one lane; 0: none */
  out_block_t *blocks;
  size_t block_count, block_capacity;
  out_place_t **ends; /* [lanes][steps] */
  bool **awaited;     /* [lanes][steps]: an `after` names the step */
  /* The current lane. */
  int32_t lane, block; /* block: of the latest step */
  size_t first_block;  /* of the lane */
  const plan_step_t *afters[PLAN_LANES_MAX];
  size_t after_at[PLAN_LANES_MAX]; /* their steps */
  size_t after_count;
} exporter_t;

/* ---- what MSCCL has no word for -------------------------------------------------------------*/

static coll_status_t refuse(const plan_t *plan, int32_t rank, int32_t lane, size_t step,
                            const char *why) {
  return base_fail(COLL_ERROR_UNSUPPORTED,
                   "plan %s/%s: rank %d lane %d step %zu %s; a schedule of MSCCL only passes "
                   "messages",
                   base_collective_name(plan->shape.collective), plan->algorithm, rank, lane, step,
                   why);
}

static bool reads_peers(const plan_program_t *program, int32_t rank, const plan_step_t *step) {
  if (step->kind == PLAN_COPY) return step->copy.src.rank != rank || step->copy.dst.rank != rank;
  if (step->kind != PLAN_REDUCE) return false;
  bool reads = step->reduce.dst.rank != rank;
  for (int32_t i = 0; i < step->reduce.source_count; i++) {
    reads = reads || program->sources[step->reduce.first_source + i].rank != rank;
  }
  return reads;
}

static coll_status_t check_step(const plan_t *plan, int32_t rank, int32_t lane, size_t index) {
  const plan_program_t *program = &plan->programs[rank];
  const plan_step_t *step = &program->lanes[lane].steps[index];
  if (step->kind == PLAN_SIGNAL) return refuse(plan, rank, lane, index, "signals a rank");
  if (step->kind == PLAN_WAIT) return refuse(plan, rank, lane, index, "waits for a signal");
  if (reads_peers(program, rank, step)) {
    return refuse(plan, rank, lane, index, "accesses another rank's memory");
  }
  return COLL_OK;
}

/* The name that a schedule gives the collective; NULL: none. */
static const char *collective_name(coll_collective_t collective) {
  switch (collective) {
    case COLL_ALLREDUCE: return "allreduce";
    case COLL_ALLGATHER: return "allgather";
    case COLL_ALLTOALL: return "alltoall";
    case COLL_REDUCE_SCATTER: return "reduce_scatter";
    case COLL_REDUCE: return "reduce";
    case COLL_BROADCAST: return "broadcast";
    default: return NULL;
  }
}

static coll_status_t check_plan(const plan_t *plan) {
  if (collective_name(plan->shape.collective) == NULL) {
    return base_fail(COLL_ERROR_UNSUPPORTED, "plan %s: schedules of MSCCL have no %s",
                     plan->algorithm, base_collective_name(plan->shape.collective));
  }
  for (int32_t rank = 0; rank < plan->shape.size; rank++) {
    if (plan->programs[rank].in_place != plan->programs[0].in_place) {
      return base_fail(
          COLL_ERROR_UNSUPPORTED,
          "plan %s: ranks 0 and %d differ in being in place, which a schedule of MSCCL "
          "states for all",
          plan->algorithm, rank);
    }
    for (int32_t lane = 0; lane < plan->lanes; lane++) {
      for (size_t i = 0; i < plan->programs[rank].lanes[lane].count; i++) {
        COLL_TRY(check_step(plan, rank, lane, i));
      }
    }
  }
  return COLL_OK;
}

/* ---- blocks ---------------------------------------------------------------------------------*/

static coll_status_t add_block(exporter_t *export, int32_t *index) {
  if (export->block_count == PLAN_LANES_MAX) {
    return base_fail(
        COLL_ERROR_UNSUPPORTED,
        "plan %s: rank %d needs more than %d thread blocks, one for each peer of a lane",
        export->plan->algorithm, export->rank, PLAN_LANES_MAX);
  }
  COLL_TRY(base_grow((void **)&export->blocks, &export->block_capacity, export->block_count + 1,
                     sizeof *export->blocks, "thread blocks"));
  *index = (int32_t) export->block_count++;
  export->blocks[*index] = (out_block_t){.send = -1, .recv = -1, .channel = -1};
  return COLL_OK;
}

/* The lane's block for messages to (or from) the peer on the channel. */
static coll_status_t find_block(exporter_t *export, bool sends, int32_t peer, int32_t channel,
                                int32_t *index) {
  int32_t unused = -1;
  for (size_t i = export->first_block; i < export->block_count; i++) {
    const out_block_t *block = &export->blocks[i];
    int32_t own = sends ? block->send : block->recv;
    bool on_channel = block->channel == -1 || block->channel == channel;
    *index = (int32_t)i;
    if (own == peer && block->channel == channel) return COLL_OK;
    if (own == -1 && on_channel && unused == -1) unused = (int32_t)i;
  }
  *index = unused;
  if (unused == -1) COLL_TRY(add_block(export, index));
  out_block_t *block = &export->blocks[*index];
  *(sends ? &block->send : &block->recv) = peer;
  block->channel = channel;
  return COLL_OK;
}

static coll_status_t append(exporter_t *export, out_step_t step) {
  out_block_t *block = &export->blocks[export->block];
  COLL_TRY(base_grow((void **)&block->steps, &block->capacity, block->count + 1, sizeof step,
                     "a schedule's steps"));
  block->steps[block->count++] = step;
  return COLL_OK;
}

static out_place_t latest(const exporter_t *export) {
  return (out_place_t){export->block, (int32_t) export->blocks[export->block].count - 1};
}

static out_step_t nop(void) {
  const plan_span_t none = {.buffer = PLAN_INPUT, .first = -1};
  return (out_step_t){.type = MSCCL_NOP,
                      .src = none,
                      .dst = {.buffer = PLAN_OUTPUT, .first = -1},
                      .dep_block = -1,
                      .dep_step = -1};
}

/* Writes the afters that were met since the last step as nops, all or all but the last. */
static coll_status_t put_afters(exporter_t *export, size_t count) {
  for (size_t i = 0; i < count; i++) {
    out_step_t step = nop();
    step.by_lane = true;
    step.dep_block = export->afters[i]->after.lane;
    step.dep_step = export->afters[i]->after.step;
    COLL_TRY(append(export, step));
    export->ends[export->lane][export->after_at[i]] = latest(export);
  }
  return COLL_OK;
}

/* Begins a step of the lane in a block: the afters before it, and the order of the lane. The first
 * step that is appended may carry *dep. */
static coll_status_t enter_block(exporter_t *export, int32_t block, out_step_t *dep) {
  out_place_t before = latest(export);
  bool moves = block != export->block && before.step >= 0;
  size_t count = export->after_count, last = count - 1;
  export->block = block;
  *dep = nop();
  if (moves) {
    dep->dep_block = before.block;
    dep->dep_step = before.step;
  } else if (count > 0 && !export->awaited[export->lane][export->after_at[last]]) {
    dep->by_lane = true;
    dep->dep_block = export->afters[last]->after.lane;
    dep->dep_step = export->afters[last]->after.step;
    count--;
  }
  return put_afters(export, count);
}

/* ---- steps ----------------------------------------------------------------------------------*/

static coll_status_t put(exporter_t *export, msccl_type_t type, plan_span_t dst, plan_span_t src,
                         out_step_t *dep) {
  out_step_t step = *dep;
  step.type = type;
  step.src = src;
  step.dst = dst;
  *dep = nop(); /* only the first carries it */
  return append(export, step);
}

static bool same_span(const plan_span_t *a, const plan_span_t *b) {
  return a->buffer == b->buffer && a->first == b->first;
}

/* dst = s0 op s1 op ..., one after the other. If dst is a later source, the chain is in scratch. */
static coll_status_t put_reduce(exporter_t *export, const plan_step_t *step, out_step_t *dep) {
  const plan_span_t *sources =
      &export->plan->programs[export->rank].sources[step->reduce.first_source];
  plan_span_t dst = step->reduce.dst, chain = dst;
  int32_t parts = export->plan->parts;
  for (int32_t i = 1; i < step->reduce.source_count; i++) {
    if (!same_span(&sources[i], &dst)) continue;
    int32_t rows = (export->plan->scratch_chunks + parts - 1) / parts * parts;
    chain.buffer = PLAN_SCRATCH;
    chain.first = rows + export->lane * export->operands + dst.first % parts;
  }
  if (!same_span(&chain, &sources[0])) COLL_TRY(put(export, MSCCL_COPY, chain, sources[0], dep));
  for (int32_t i = 1; i < step->reduce.source_count; i++) {
    COLL_TRY(put(export, MSCCL_REDUCE, chain, sources[i], dep));
  }
  return same_span(&chain, &dst) ? COLL_OK : put(export, MSCCL_COPY, dst, chain, dep);
}

static coll_status_t put_step(exporter_t *export, const plan_step_t *step) {
  int32_t block = export->block;
  out_step_t dep;
  if (step->kind == PLAN_SEND) {
    COLL_TRY(find_block(export, true, step->send.peer, step->send.channel, &block));
  }
  if (step->kind == PLAN_RECV) {
    COLL_TRY(find_block(export, false, step->recv.peer, step->recv.channel, &block));
  }
  COLL_TRY(enter_block(export, block, &dep));
  switch (step->kind) {
    case PLAN_SEND: return put(export, MSCCL_SEND, step->send.src, step->send.src, &dep);
    case PLAN_RECV: return put(export, MSCCL_RECV, step->recv.dst, step->recv.dst, &dep);
    case PLAN_COPY: return put(export, MSCCL_COPY, step->copy.dst, step->copy.src, &dep);
    case PLAN_REDUCE: return put_reduce(export, step, &dep);
    default: return COLL_OK;
  }
}

static coll_status_t note_after(exporter_t *export, const plan_step_t *step, size_t index) {
  if (export->after_count == PLAN_LANES_MAX) {
    COLL_TRY(put_afters(export, export->after_count));
    export->after_count = 0;
  }
  export->afters[export->after_count] = step;
  export->after_at[export->after_count++] = index;
  return COLL_OK;
}

static coll_status_t export_lane(exporter_t *export) {
  const plan_lane_t *lane = &export->plan->programs[export->rank].lanes[export->lane];
  export->first_block = export->block_count;
  export->after_count = 0;
  COLL_TRY(add_block(export, &export->block));
  for (size_t i = 0; i < lane->count; i++) {
    const plan_step_t *step = &lane->steps[i];
    if (step->kind == PLAN_AFTER) {
      COLL_TRY(note_after(export, step, i));
      continue;
    }
    COLL_TRY(put_step(export, step));
    export->ends[export->lane][i] = latest(export);
    for (size_t a = 0; a < export->after_count; a++) {
      out_place_t *end = &export->ends[export->lane][export->after_at[a]];
      if (end->block < 0) *end = latest(export);
    }
    export->after_count = 0;
  }
  return put_afters(export, export->after_count);
}

/* ---- a rank ---------------------------------------------------------------------------------*/

/* Replaces lanes by blocks in dependencies, and marks the steps that others depend on. */
static void resolve(exporter_t *export) {
  for (size_t i = 0; i < export->block_count; i++) {
    for (size_t at = 0; at < export->blocks[i].count; at++) {
      out_step_t *step = &export->blocks[i].steps[at];
      if (step->dep_block < 0) continue;
      if (step->by_lane) {
        out_place_t place = export->ends[step->dep_block][step->dep_step];
        step->dep_block = place.block;
        step->dep_step = place.step;
      }
      export->blocks[step->dep_block].steps[step->dep_step].is_awaited = true;
    }
  }
}

static void write_blocks(const exporter_t *export, FILE *out) {
  for (size_t i = 0; i < export->block_count; i++) {
    const out_block_t *block = &export->blocks[i];
    fprintf(out, "    <tb id=\"%zu\" send=\"%d\" recv=\"%d\" chan=\"%d\">\n", i, block->send,
            block->recv, block->channel < 0 ? 0 : block->channel);
    for (size_t at = 0; at < block->count; at++) {
      const out_step_t *step = &block->steps[at];
      fprintf(out,
              "      <step s=\"%zu\" type=\"%s\" srcbuf=\"%c\" srcoff=\"%d\" dstbuf=\"%c\" "
              "dstoff=\"%d\" cnt=\"%d\" depid=\"%d\" deps=\"%d\" hasdep=\"%d\"/>\n",
              at, msccl_type_names[step->type], msccl_buffer_letters[step->src.buffer],
              step->src.first, msccl_buffer_letters[step->dst.buffer], step->dst.first,
              step->src.count, step->dep_block, step->dep_step, step->is_awaited);
    }
    fprintf(out, "    </tb>\n");
  }
}

static void write_gpu(const exporter_t *export, FILE *out) {
  const plan_t *plan = export->plan;
  int32_t parts = plan->parts, scratch = plan->scratch_chunks;
  if (export->operands > 0) {
    scratch = (scratch + parts - 1) / parts * parts + plan->lanes * export->operands;
  }
  fprintf(out, "  <gpu id=\"%d\" i_chunks=\"%d\" o_chunks=\"%d\" s_chunks=\"%d\">\n", export->rank,
          plan_chunks(plan, export->rank, PLAN_INPUT), plan_chunks(plan, export->rank, PLAN_OUTPUT),
          scratch);
  write_blocks(export, out);
  fprintf(out, "  </gpu>\n");
}

static coll_status_t prepare(exporter_t *export) {
  const plan_program_t *program = &export->plan->programs[export->rank];
  size_t lanes = (size_t) export->plan->lanes;
  COLL_TRY(base_alloc(lanes, sizeof *export->ends, "lanes", (void **)&export->ends));
  COLL_TRY(base_alloc(lanes, sizeof *export->awaited, "lanes", (void **)&export->awaited));
  for (size_t i = 0; i < lanes; i++) {
    size_t count = program->lanes[i].count + 1;
    COLL_TRY(base_alloc(count, sizeof **export->ends, "steps", (void **)&export->ends[i]));
    COLL_TRY(base_alloc(count, sizeof **export->awaited, "steps", (void **)&export->awaited[i]));
    for (size_t at = 0; at < count; at++) export->ends[i][at] = (out_place_t){-1, -1};
  }
  for (size_t i = 0; i < lanes; i++) {
    for (size_t at = 0; at < program->lanes[i].count; at++) {
      const plan_step_t *step = &program->lanes[i].steps[at];
      if (step->kind == PLAN_AFTER) export->awaited[step->after.lane][step->after.step] = true;
    }
  }
  return COLL_OK;
}

static coll_status_t export_rank(exporter_t *export, FILE *out) {
  int32_t lanes = export->plan->lanes;
  coll_status_t status = prepare(export);
  for (export->lane = 0; export->lane < lanes && status == COLL_OK; export->lane++) {
    status = export_lane(export);
  }
  if (status == COLL_OK) {
    resolve(export);
    write_gpu(export, out);
  }
  for (int32_t i = 0; i < lanes; i++) {
    if (export->ends != NULL) free(export->ends[i]);
    if (export->awaited != NULL) free(export->awaited[i]);
  }
  free(export->ends);
  free(export->awaited);
  for (size_t i = 0; i < export->block_count; i++) free(export->blocks[i].steps);
  free(export->blocks);
  return status;
}

/* ---- the plan -------------------------------------------------------------------------------*/

/* Chunks of scratch per lane for chains that cannot be in their destination. */
static int32_t operands_of(const plan_t *plan) {
  int32_t chunks = 0, parts = plan->parts;
  for (int32_t rank = 0; rank < plan->shape.size; rank++) {
    const plan_program_t *program = &plan->programs[rank];
    for (int32_t lane = 0; lane < plan->lanes; lane++) {
      for (size_t at = 0; at < program->lanes[lane].count; at++) {
        const plan_step_t *step = &program->lanes[lane].steps[at];
        if (step->kind != PLAN_REDUCE) continue;
        int32_t needed = (parts + step->reduce.dst.count + parts - 1) / parts * parts;
        for (int32_t i = 1; i < step->reduce.source_count; i++) {
          bool is_dst =
              same_span(&program->sources[step->reduce.first_source + i], &step->reduce.dst);
          if (is_dst && needed > chunks) chunks = needed;
        }
      }
    }
  }
  return chunks;
}

static int32_t channels_of(const plan_t *plan) {
  int32_t channels = 1;
  for (int32_t i = 0; i < plan->shape.size * plan->lanes; i++) {
    const plan_lane_t *lane = &plan->programs[i / plan->lanes].lanes[i % plan->lanes];
    for (size_t at = 0; at < lane->count; at++) {
      const plan_step_t *step = &lane->steps[at];
      if (step->kind == PLAN_SEND && step->send.channel >= channels) {
        channels = step->send.channel + 1;
      }
    }
  }
  return channels;
}

static void write_algo(const plan_t *plan, FILE *out) {
  coll_collective_t collective = plan->shape.collective;
  bool per_rank = collective == COLL_ALLGATHER || collective == COLL_ALLTOALL ||
                  collective == COLL_REDUCE_SCATTER;
  bool in_place = plan->programs[0].in_place;
  fprintf(out,
          "<algo name=\"%s\" proto=\"Simple\" nchannels=\"%d\" nchunksperloop=\"%d\" ngpus=\"%d\" "
          "coll=\"%s\" inplace=\"%d\" outofplace=\"%d\" minBytes=\"0\" maxBytes=\"0\"",
          plan->algorithm, channels_of(plan), plan->parts * (per_rank ? plan->shape.size : 1),
          plan->shape.size, collective_name(collective), in_place, !in_place);
  if (base_collective_is_rooted(collective)) fprintf(out, " root=\"%d\"", plan->shape.root);
  fprintf(out, ">\n");
}

coll_status_t msccl_export(const plan_t *plan, FILE *out) {
  char *text = NULL;
  size_t bytes = 0;
  coll_status_t status = check_plan(plan);
  FILE *stream = status == COLL_OK ? open_memstream(&text, &bytes) : NULL;
  if (status != COLL_OK) return status;
  if (stream == NULL) return base_fail_errno(COLL_ERROR_MEMORY, "no memory for a schedule");
  write_algo(plan, stream);
  int32_t operands = operands_of(plan);
  for (int32_t rank = 0; rank < plan->shape.size && status == COLL_OK; rank++) {
    exporter_t export = {.plan = plan, .rank = rank, .operands = operands};
    status = export_rank(&export, stream);
  }
  fputs("</algo>\n", stream);
  if (fclose(stream) != 0 && status == COLL_OK) {
    status = base_fail_errno(COLL_ERROR_MEMORY, "no memory for a schedule");
  }
  if (status == COLL_OK && fwrite(text, 1, bytes, out) != bytes) {
    status = base_fail_errno(COLL_ERROR_SYSTEM, "cannot write the schedule");
  }
  free(text);
  return status;
}
