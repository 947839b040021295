/*
 * Each step of the embedded plan becomes one step. If the blocks of a phase are parts of one block
 * of the embedding plan, their sizes differ. A chunk of SCRATCH that holds one block's data now and
 * another's later is then at two places: at a time, it is where the size is that of its data. Which
 * data that are is read from the program: received operands are combined with, or copied to, chunks
 * of known blocks.
 */
#include "algo/compose/embed.h"

#include <assert.h>
#include <stdlib.h>

#include "base/alloc.h"

typedef struct embedder {
  plan_emitter_t *e;
  const algo_phase_t *phase;
  const plan_t *sub;
  int32_t unit;                 /* chunks that a chunk of the phase consists of */
  size_t begun[PLAN_LANES_MAX]; /* steps of the lanes before the phase */
} embedder_t;

/* ---- the data in SCRATCH --------------------------------------------------------------------*/

enum { UNKNOWN = -1 };

/* The chunk, over all blocks, that a chunk of INPUT or OUTPUT of rank `rank` of the line is. */
static int32_t block_chunk(const plan_t *sub, int32_t rank, plan_buffer_t buffer, int32_t chunk) {
  bool is_scattered = sub->shape.collective == COLL_REDUCE_SCATTER && buffer == PLAN_OUTPUT;
  bool is_gathered = sub->shape.collective == COLL_ALLGATHER && buffer == PLAN_INPUT;
  return is_scattered || is_gathered ? rank * sub->parts + chunk : chunk;
}

static bool covers(const plan_span_t *span, int32_t chunk) {
  return span->buffer == PLAN_SCRATCH && span->first <= chunk && chunk < span->first + span->count;
}

/* The data of SCRATCH chunk `chunk`, if a step that pairs it with `other` knows them. */
static int32_t data_by(const plan_t *sub, int32_t rank, int32_t chunk, const plan_span_t *span,
                       const plan_span_t *other) {
  if (!covers(span, chunk) || other->buffer == PLAN_SCRATCH) return UNKNOWN;
  return block_chunk(sub, rank, other->buffer, other->first + chunk - span->first);
}

/* The data that the step shows SCRATCH chunk `chunk` to hold. */
static int32_t data_in(const plan_t *sub, int32_t rank, const plan_step_t *step, int32_t chunk) {
  const plan_program_t *program = &sub->programs[rank];
  if (step->kind == PLAN_COPY) {
    int32_t data = data_by(sub, rank, chunk, &step->copy.src, &step->copy.dst);
    return data != UNKNOWN ? data : data_by(sub, rank, chunk, &step->copy.dst, &step->copy.src);
  }
  if (step->kind != PLAN_REDUCE) return UNKNOWN;
  const plan_span_t *sources = &program->sources[step->reduce.first_source], *mine = NULL;
  for (int32_t i = 0; i < step->reduce.source_count; i++) {
    if (covers(&sources[i], chunk)) mine = &sources[i];
  }
  if (mine == NULL && covers(&step->reduce.dst, chunk)) mine = &step->reduce.dst;
  if (mine == NULL) return UNKNOWN;
  int32_t data = data_by(sub, rank, chunk, mine, &step->reduce.dst);
  for (int32_t i = 0; i < step->reduce.source_count && data == UNKNOWN; i++) {
    data = data_by(sub, rank, chunk, mine, &sources[i]);
  }
  return data;
}

static bool overwrites(const plan_step_t *step, int32_t chunk) {
  switch (step->kind) {
    case PLAN_COPY: return covers(&step->copy.dst, chunk);
    case PLAN_RECV: return covers(&step->recv.dst, chunk);
    default: return false; /* a reduction keeps the data's place */
  }
}

/* The data that SCRATCH chunk `chunk` holds at step `at`: what that step or the next
 * one that uses it shows, or else the last one before. `writes`: the step overwrites the chunk. */
static int32_t data_at(const plan_t *sub, int32_t rank, size_t at, int32_t chunk, bool writes) {
  const plan_lane_t *steps = &sub->programs[rank].lanes[0];
  int32_t data = UNKNOWN;
  for (size_t i = at; i < steps->count && data == UNKNOWN; i++) {
    if (i > at && overwrites(&steps->steps[i], chunk)) break;
    data = data_in(sub, rank, &steps->steps[i], chunk);
  }
  for (size_t i = at; i-- > 0 && data == UNKNOWN && !writes;) {
    data = data_in(sub, rank, &steps->steps[i], chunk);
    if (overwrites(&steps->steps[i], chunk)) break;
  }
  return data;
}

/* ---- what can be embedded -------------------------------------------------------------------*/

typedef struct span_visit {
  const plan_t *sub;
  int32_t *holder; /* [chunks of all blocks]: 1 + the SCRATCH chunk that holds these data; or 0 */
  bool failed;
} span_visit_t;

static void visit_span(span_visit_t *visit, int32_t rank, size_t at, const plan_span_t *span,
                       bool writes) {
  if (span->buffer != PLAN_SCRATCH) return;
  int32_t before = UNKNOWN;
  for (int32_t i = 0; i < span->count; i++) {
    int32_t data = data_at(visit->sub, rank, at, span->first + i, writes);
    bool follows = i == 0 || data == before + 1;
    int32_t *holder = data == UNKNOWN ? NULL : &visit->holder[data];
    if (holder == NULL || !follows || (*holder != 0 && *holder != span->first + i + 1)) {
      visit->failed = true;
      return;
    }
    *holder = span->first + i + 1;
    before = data;
  }
}

static void visit_step(span_visit_t *visit, int32_t rank, size_t at) {
  const plan_program_t *program = &visit->sub->programs[rank];
  const plan_step_t *step = &program->lanes[0].steps[at];
  switch (step->kind) {
    case PLAN_COPY:
      visit_span(visit, rank, at, &step->copy.src, false);
      visit_span(visit, rank, at, &step->copy.dst, true);
      return;
    case PLAN_REDUCE:
      for (int32_t i = 0; i < step->reduce.source_count; i++) {
        visit_span(visit, rank, at, &program->sources[step->reduce.first_source + i], false);
      }
      visit_span(visit, rank, at, &step->reduce.dst, false);
      return;
    case PLAN_SEND: visit_span(visit, rank, at, &step->send.src, false); return;
    case PLAN_RECV: visit_span(visit, rank, at, &step->recv.dst, true); return;
    default: return;
  }
}

/* Whether the data of every span in SCRATCH of rank 0 are known, and never in two chunks, so that
 * one block has room for all of them. The programs of all ranks of many would take long to look at;
 * the verifier has the plans of all in the tests. */
static coll_status_t check_scratch(const plan_t *sub) {
  span_visit_t visit = {.sub = sub, .failed = sub->lanes > 1};
  size_t chunks = (size_t)sub->shape.size * (size_t)sub->parts;
  const plan_lane_t *lane = &sub->programs[0].lanes[0];
  COLL_TRY(base_alloc(chunks, sizeof *visit.holder, "a phase", (void **)&visit.holder));
  for (size_t at = 0; at < lane->count && !visit.failed; at++) visit_step(&visit, 0, at);
  free(visit.holder);
  if (!visit.failed) return COLL_OK;
  return base_fail(COLL_ERROR_INVALID,
                   "algorithm %s cannot be embedded: the size of what it holds in scratch does not "
                   "follow from its steps",
                   sub->algorithm);
}

/* Whether the phase's chunks of SCRATCH hold chunks of different blocks, whose sizes differ. */
static bool differs_in_size(const algo_t *algo, bool in_one_block) {
  return in_one_block &&
         (algo->collective == COLL_REDUCE_SCATTER || algo->collective == COLL_ALLGATHER);
}

static coll_status_t check_messages(const plan_t *sub) {
  plan_reach_t most = sub->shape.collective == COLL_BARRIER ? PLAN_REACH_SCRATCH : PLAN_REACH_OWN;
  if (sub->reach <= most && !sub->multicast) return COLL_OK;
  return base_fail(COLL_ERROR_INVALID,
                   "algorithm %s cannot be embedded: it does more than send messages to one peer "
                   "at a time",
                   sub->algorithm);
}

coll_status_t algo_phase_needs(const algo_t *algo, int32_t size, int32_t root, bool in_one_block,
                               algo_needs_t *needs) {
  const plan_shape_t shape = {.collective = algo->collective, .size = size, .root = root};
  bool differs = differs_in_size(algo, in_one_block);
  plan_t *sub;
  COLL_TRY(algo_build(algo, &shape, 0, false, &sub));
  *needs = (algo_needs_t){.parts = sub->parts,
                          .message_chunks = sub->message_chunks,
                          .scratch_chunks = sub->scratch_chunks,
                          .lanes = sub->lanes,
                          .depth = sub->depth};
  if (in_one_block) needs->scratch_chunks = (sub->scratch_chunks + sub->parts - 1) / sub->parts;
  coll_status_t status = check_messages(sub);
  if (status == COLL_OK && differs && sub->scratch_chunks > 0) {
    needs->scratch_chunks = 1;
    status = check_scratch(sub);
  }
  plan_free(sub);
  return status;
}

/* ---- renaming -------------------------------------------------------------------------------*/

/* The place of SCRATCH chunk `chunk` of the phase at step `at`. */
static int32_t scratch_place(const embedder_t *embedder, size_t at, int32_t chunk, bool writes) {
  const algo_phase_t *phase = embedder->phase;
  const plan_t *sub = embedder->sub;
  int32_t sub_parts = sub->parts, parts = embedder->e->plan->parts;
  if (!phase->in_one_block) return phase->scratch + chunk * embedder->unit * phase->stride;
  if (differs_in_size(phase->algo, true)) {
    int32_t data = data_at(sub, phase->index, at, chunk, writes);
    return phase->scratch + phase->vector + data * embedder->unit;
  }
  return phase->scratch + chunk / sub_parts * parts + phase->vector +
         chunk % sub_parts * embedder->unit;
}

static plan_span_t renamed(const embedder_t *embedder, size_t at, const plan_span_t *span,
                           bool writes) {
  const algo_phase_t *phase = embedder->phase;
  plan_span_t to = {.rank = embedder->e->rank, .count = span->count * embedder->unit};
  if (span->buffer == PLAN_SCRATCH) {
    to.buffer = PLAN_SCRATCH;
    to.first = scratch_place(embedder, at, span->first, writes);
    return to;
  }
  const algo_place_t *place = span->buffer == PLAN_INPUT ? &phase->input : &phase->output;
  int32_t unit = embedder->unit * phase->stride;
  assert((place->at == NULL && phase->stride == 1) || to.count == 1);
  to.buffer = place->buffer;
  to.first = place->at != NULL ? place->at[span->first] : place->first + span->first * unit;
  return to;
}

static void emit_reduce(const embedder_t *embedder, int lane, size_t at, const plan_step_t *step) {
  plan_emitter_t *e = embedder->e;
  const plan_program_t *program = &embedder->sub->programs[embedder->phase->index];
  plan_span_t *sources;
  int32_t count = step->reduce.source_count;
  if (e->status != COLL_OK) return;
  e->status = base_alloc((size_t)count, sizeof *sources, "reduce sources", (void **)&sources);
  if (e->status != COLL_OK) return;
  for (int32_t i = 0; i < count; i++) {
    sources[i] = renamed(embedder, at, &program->sources[step->reduce.first_source + i], false);
  }
  plan_emit_reduce(e, lane, renamed(embedder, at, &step->reduce.dst, false), sources, count);
  free(sources);
}

static void emit_step(const embedder_t *embedder, int sub_lane, size_t at) {
  plan_emitter_t *e = embedder->e;
  const int32_t *ranks = embedder->phase->ranks;
  int first_lane = embedder->phase->lane, lane = first_lane + sub_lane;
  const plan_program_t *program = &embedder->sub->programs[embedder->phase->index];
  const plan_step_t *step = &program->lanes[sub_lane].steps[at];
  switch (step->kind) {
    case PLAN_COPY:
      plan_emit_copy(e, lane, renamed(embedder, at, &step->copy.dst, true),
                     renamed(embedder, at, &step->copy.src, false));
      return;
    case PLAN_REDUCE: emit_reduce(embedder, lane, at, step); return;
    case PLAN_SEND:
      plan_emit_send(e, lane, ranks[step->send.peer],
                     renamed(embedder, at, &step->send.src, false));
      return;
    case PLAN_RECV:
      plan_emit_recv(e, lane, ranks[step->recv.peer], renamed(embedder, at, &step->recv.dst, true));
      return;
    case PLAN_SIGNAL: plan_emit_signal(e, lane, ranks[step->signal.peer]); return;
    case PLAN_WAIT: plan_emit_wait(e, lane, ranks[step->wait.peer]); return;
    case PLAN_AFTER:
      plan_emit_after(e, lane, first_lane + step->after.lane,
                      (int32_t)embedder->begun[step->after.lane] + step->after.step);
      return;
    case PLAN_STEP_KIND_COUNT: return;
  }
}

/* Makes each lane of the phase wait for the last steps of the others. */
static void join_lanes(plan_emitter_t *e, const algo_phase_t *phase) {
  int32_t last[PLAN_LANES_MAX];
  int end = phase->lane + phase->lanes;
  for (int lane = phase->lane; lane < end; lane++) {
    last[lane] = (int32_t)e->program->lanes[lane].count - 1;
  }
  for (int lane = phase->lane; lane < end; lane++) {
    for (int other = phase->lane; other < end; other++) {
      if (other != lane && last[other] >= 0) plan_emit_after(e, lane, other, last[other]);
    }
  }
}

void algo_emit_phase(plan_emitter_t *e, const algo_phase_t *phase) {
  const plan_shape_t shape = {
      .collective = phase->algo->collective, .size = phase->size, .root = phase->root};
  plan_t *sub;
  if (e->status != COLL_OK) return;
  e->status = algo_build(phase->algo, &shape, phase->index, phase->in_place, &sub);
  if (e->status != COLL_OK) return;
  embedder_t embedder = {
      .e = e, .phase = phase, .sub = sub, .unit = phase->block_chunks / sub->parts};
  assert(embedder.unit * sub->parts == phase->block_chunks);
  assert(sub->lanes <= phase->lanes);
  join_lanes(e, phase);
  for (int lane = 0; lane < sub->lanes; lane++) {
    embedder.begun[lane] = e->program->lanes[phase->lane + lane].count;
  }
  for (int lane = 0; lane < sub->lanes; lane++) {
    size_t count = sub->programs[phase->index].lanes[lane].count;
    for (size_t at = 0; at < count; at++) emit_step(&embedder, lane, at);
  }
  plan_free(sub);
}
