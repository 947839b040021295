/*
 * Scratch chunks of a schedule hold any chunk of a block; in a plan, the number of a scratch chunk
 * modulo `parts` is that of the data in it. Chunks that a step pairs hold the same part, so
 * union-find over all pairs, and over the two ends of each message, shows the part of each. Chunks
 * that a span joins stay adjacent. A rank whose numbers are right already keeps them.
 */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "tools/collplan/msccl.h"

#define CHUNKS_MAX (1 << 24) /* of scratch per rank, once they are renumbered */

enum { UNKNOWN = -1, FREE = 0, OF_FILE = -1 };

typedef struct placer {
  const msccl_scratch_t *scratch;
  plan_t *plan;
  size_t *first;   /* [ranks + 1]: the rank's first scratch chunk among all */
  size_t *parent;  /* of union-find; a root is its own parent */
  int32_t *part;   /* of roots; UNKNOWN */
  bool *is_joined; /* a span covers the chunk and the next one */
  int32_t *place;  /* the new number */
  int32_t rank, lane;
  size_t step; /* for errors */
} placer_t;

static size_t root_of(placer_t *placer, size_t chunk) {
  while (placer->parent[chunk] != chunk) {
    placer->parent[chunk] = placer->parent[placer->parent[chunk]];
    chunk = placer->parent[chunk];
  }
  return chunk;
}

static coll_status_t fail_parts(const placer_t *placer, int32_t a, int32_t b) {
  int line =
      msccl_line_of(placer->scratch->lines, placer->rank, placer->lane, (int32_t)placer->step);
  return msccl_refuse(
      placer->scratch->file_name, line,
      "gpu %d: this scratch chunk holds part %d and, elsewhere, part %d of a block; "
      "their sizes differ where a count is not a multiple of the parts: use two "
      "scratch chunks",
      placer->rank, a, b);
}

static coll_status_t set_part(placer_t *placer, size_t root, int32_t part) {
  if (part == UNKNOWN || placer->part[root] == part) return COLL_OK;
  if (placer->part[root] != UNKNOWN) return fail_parts(placer, placer->part[root], part);
  placer->part[root] = part;
  return COLL_OK;
}

/* Chunk `index` of the two spans holds the same part. */
static coll_status_t pair_chunks(placer_t *placer, const plan_span_t *a, const plan_span_t *b,
                                 int32_t index) {
  const plan_span_t *spans[] = {a, b};
  size_t roots[2] = {SIZE_MAX, SIZE_MAX};
  int32_t parts[2] = {UNKNOWN, UNKNOWN};
  for (int i = 0; i < 2; i++) {
    int32_t chunk = spans[i]->first + index;
    if (spans[i]->buffer == PLAN_SCRATCH) {
      roots[i] = root_of(placer, placer->first[spans[i]->rank] + (size_t)chunk);
      parts[i] = placer->part[roots[i]];
    } else {
      parts[i] = chunk % placer->plan->parts;
    }
  }
  for (int i = 0; i < 2; i++) {
    if (roots[i] != SIZE_MAX) COLL_TRY(set_part(placer, roots[i], parts[1 - i]));
  }
  if (roots[0] != SIZE_MAX && roots[1] != SIZE_MAX) placer->parent[roots[0]] = roots[1];
  return COLL_OK;
}

static void join(placer_t *placer, const plan_span_t *span) {
  if (span->buffer != PLAN_SCRATCH) return;
  memset(&placer->is_joined[placer->first[span->rank] + (size_t)span->first], 1,
         (size_t)span->count - 1);
}

static coll_status_t pair_spans(placer_t *placer, const plan_span_t *a, const plan_span_t *b) {
  if (a->buffer != PLAN_SCRATCH && b->buffer != PLAN_SCRATCH) return COLL_OK;
  int32_t count = a->count < b->count ? a->count : b->count;
  for (int32_t i = 0; i < count; i++) COLL_TRY(pair_chunks(placer, a, b, i));
  return COLL_OK;
}

/* ---- steps ----------------------------------------------------------------------------------*/

static coll_status_t visit_step(placer_t *placer, const plan_step_t *step) {
  const plan_program_t *program = &placer->plan->programs[placer->rank];
  switch (step->kind) {
    case PLAN_COPY:
      join(placer, &step->copy.dst);
      join(placer, &step->copy.src);
      return pair_spans(placer, &step->copy.dst, &step->copy.src);
    case PLAN_REDUCE:
      join(placer, &step->reduce.dst);
      for (int32_t i = 0; i < step->reduce.source_count; i++) {
        const plan_span_t *source = &program->sources[step->reduce.first_source + i];
        join(placer, source);
        COLL_TRY(pair_spans(placer, &step->reduce.dst, source));
      }
      return COLL_OK;
    case PLAN_SEND: join(placer, &step->send.src); return COLL_OK;
    case PLAN_RECV: join(placer, &step->recv.dst); return COLL_OK;
    default: return COLL_OK;
  }
}

/* One end of a message. */
typedef struct end {
  int32_t source, destination, channel;
  bool receives;
  size_t order; /* within its lane, which owns the end of the FIFO */
  int32_t rank, lane;
  const plan_span_t *span;
} end_t;

static int compare_ends(const void *left, const void *right) {
  const end_t *a = left, *b = right;
  if (a->source != b->source) return a->source < b->source ? -1 : 1;
  if (a->destination != b->destination) return a->destination < b->destination ? -1 : 1;
  if (a->channel != b->channel) return a->channel < b->channel ? -1 : 1;
  if (a->receives != b->receives) return a->receives ? 1 : -1;
  return a->order < b->order ? -1 : a->order > b->order;
}

static bool same_fifo(const end_t *a, const end_t *b) {
  return a->source == b->source && a->destination == b->destination && a->channel == b->channel;
}

static end_t end_of(const placer_t *placer, const plan_step_t *step) {
  bool receives = step->kind == PLAN_RECV;
  return (end_t){.source = receives ? step->recv.peer : placer->rank,
                 .destination = receives ? placer->rank : step->send.peer,
                 .channel = receives ? step->recv.channel : step->send.channel,
                 .receives = receives,
                 .order = placer->step,
                 .rank = placer->rank,
                 .lane = placer->lane,
                 .span = receives ? &step->recv.dst : &step->send.src};
}

static coll_status_t pair_messages(placer_t *placer, const end_t ends[], size_t count) {
  for (size_t first = 0, last; first < count; first = last) {
    size_t receive = first;
    while (receive < count && same_fifo(&ends[first], &ends[receive]) && !ends[receive].receives) {
      receive++;
    }
    for (last = receive; last < count && same_fifo(&ends[first], &ends[last]);) last++;
    for (size_t i = 0; first + i < receive && receive + i < last; i++) {
      placer->rank = ends[receive + i].rank;
      placer->lane = ends[receive + i].lane;
      placer->step = ends[receive + i].order;
      COLL_TRY(pair_spans(placer, ends[first + i].span, ends[receive + i].span));
    }
  }
  return COLL_OK;
}

/* Visits all steps, and the ends of messages in the order of their FIFOs. */
static coll_status_t visit_all(placer_t *placer) {
  const plan_t *plan = placer->plan;
  end_t *ends = NULL;
  size_t count = 0, capacity = 0;
  coll_status_t status = COLL_OK;
  for (int32_t i = 0; i < plan->shape.size * plan->lanes && status == COLL_OK; i++) {
    placer->rank = i / plan->lanes;
    placer->lane = i % plan->lanes;
    const plan_lane_t *lane = &plan->programs[placer->rank].lanes[placer->lane];
    status =
        base_grow((void **)&ends, &capacity, count + lane->count + 1, sizeof *ends, "messages");
    for (placer->step = 0; placer->step < lane->count && status == COLL_OK; placer->step++) {
      const plan_step_t *step = &lane->steps[placer->step];
      if (step->kind == PLAN_SEND || step->kind == PLAN_RECV) ends[count++] = end_of(placer, step);
      status = visit_step(placer, step);
    }
  }
  if (status == COLL_OK && count > 0) {
    qsort(ends, count, sizeof *ends, compare_ends);
    status = pair_messages(placer, ends, count);
  }
  free(ends);
  return status;
}

/* ---- places ---------------------------------------------------------------------------------*/

/* The chunks of one rank's scratch that are taken: FREE, OF_FILE, or 1 + the lane. */
typedef struct taken {
  int32_t *owners;
  size_t capacity;
  int32_t count;
} taken_t;

static int32_t part_of(placer_t *placer, size_t chunk) {
  int32_t part = placer->part[root_of(placer, chunk)];
  size_t own = chunk - placer->first[placer->rank];
  return part != UNKNOWN ? part : (int32_t)(own % (size_t)placer->plan->parts);
}

static bool is_free(const taken_t *taken, int32_t from, int32_t count, int32_t owner) {
  for (int32_t i = from; i < from + count && i < taken->count; i++) {
    bool shared = owner != OF_FILE && taken->owners[i] == owner;
    if (taken->owners[i] != FREE && !shared) return false;
  }
  return true;
}

static coll_status_t take(taken_t *taken, int32_t from, int32_t count, int32_t owner) {
  COLL_TRY(base_grow((void **)&taken->owners, &taken->capacity, (size_t)(from + count),
                     sizeof *taken->owners, "scratch chunks"));
  while (taken->count < from + count) taken->owners[taken->count++] = FREE;
  for (int32_t i = from; i < from + count; i++) taken->owners[i] = owner;
  return COLL_OK;
}

/* Places the adjacent chunks [chunk, chunk + count). */
static coll_status_t place_run(placer_t *placer, taken_t *taken, size_t chunk, int32_t count,
                               int32_t owner) {
  int32_t parts = placer->plan->parts, first = part_of(placer, chunk), from = first;
  for (int32_t i = 1; i < count; i++) {
    int32_t part = part_of(placer, chunk + (size_t)i);
    if (part != (first + i) % parts) return fail_parts(placer, part, (first + i) % parts);
  }
  while (!is_free(taken, from, count, owner)) from += parts;
  if (from + count > CHUNKS_MAX) {
    return msccl_refuse(placer->scratch->file_name, 0,
                        "gpu %d needs more than %d chunks of scratch", placer->rank, CHUNKS_MAX);
  }
  for (int32_t i = 0; i < count; i++) placer->place[chunk + (size_t)i] = from + i;
  return take(taken, from, count, owner);
}

/* Whether the numbers of the file's chunks are right as they are. */
static bool keeps_numbers(placer_t *placer) {
  for (int32_t i = 0; i < placer->scratch->real[placer->rank]; i++) {
    size_t chunk = placer->first[placer->rank] + (size_t)i;
    if (part_of(placer, chunk) != i % placer->plan->parts) return false;
  }
  return true;
}

static coll_status_t place_rank(placer_t *placer, taken_t *taken) {
  int32_t real = placer->scratch->real[placer->rank], total = placer->scratch->total[placer->rank];
  size_t first = placer->first[placer->rank];
  int32_t at = 0;
  if (keeps_numbers(placer)) {
    if (real > 0) COLL_TRY(take(taken, 0, real, OF_FILE));
    for (; at < real; at++) placer->place[first + (size_t)at] = at;
  }
  while (at < total) {
    int32_t count = 1;
    while (placer->is_joined[first + (size_t)(at + count - 1)]) count++;
    int32_t owner = at < real ? OF_FILE : 1 + placer->scratch->lane[placer->rank][at - real];
    COLL_TRY(place_run(placer, taken, first + (size_t)at, count, owner));
    at += count;
  }
  if (taken->count > placer->plan->scratch_chunks) placer->plan->scratch_chunks = taken->count;
  return COLL_OK;
}

static void renumber(const placer_t *placer, plan_span_t *span) {
  if (span->buffer != PLAN_SCRATCH) return;
  span->first = placer->place[placer->first[span->rank] + (size_t)span->first];
}

static void renumber_all(const placer_t *placer) {
  plan_t *plan = placer->plan;
  for (int32_t rank = 0; rank < plan->shape.size; rank++) {
    plan_program_t *program = &plan->programs[rank];
    for (size_t i = 0; i < program->source_count; i++) renumber(placer, &program->sources[i]);
    for (int32_t lane = 0; lane < plan->lanes; lane++) {
      for (size_t i = 0; i < program->lanes[lane].count; i++) {
        plan_step_t *step = &program->lanes[lane].steps[i];
        if (step->kind == PLAN_COPY) renumber(placer, &step->copy.src);
        if (step->kind == PLAN_COPY) renumber(placer, &step->copy.dst);
        if (step->kind == PLAN_REDUCE) renumber(placer, &step->reduce.dst);
        if (step->kind == PLAN_SEND) renumber(placer, &step->send.src);
        if (step->kind == PLAN_RECV) renumber(placer, &step->recv.dst);
      }
    }
  }
}

static coll_status_t place_all(placer_t *placer) {
  COLL_TRY(visit_all(placer));
  for (int32_t rank = 0; rank < placer->plan->shape.size; rank++) {
    taken_t taken = {0};
    placer->rank = rank;
    placer->lane = 0;
    placer->step = 0;
    coll_status_t status = place_rank(placer, &taken);
    free(taken.owners);
    COLL_TRY(status);
  }
  renumber_all(placer);
  return COLL_OK;
}

static coll_status_t create(placer_t *placer) {
  static const char what[] = "scratch chunks";
  size_t ranks = (size_t)placer->plan->shape.size;
  COLL_TRY(base_alloc(ranks + 1, sizeof *placer->first, what, (void **)&placer->first));
  for (size_t i = 0; i < ranks; i++) {
    placer->first[i + 1] = placer->first[i] + (size_t)placer->scratch->total[i];
  }
  size_t count = placer->first[ranks] + 1;
  COLL_TRY(base_alloc(count, sizeof *placer->parent, what, (void **)&placer->parent));
  COLL_TRY(base_alloc(count, sizeof *placer->part, what, (void **)&placer->part));
  COLL_TRY(base_alloc(count, sizeof *placer->is_joined, what, (void **)&placer->is_joined));
  COLL_TRY(base_alloc(count, sizeof *placer->place, what, (void **)&placer->place));
  for (size_t i = 0; i < count; i++) {
    placer->parent[i] = i;
    placer->part[i] = UNKNOWN;
  }
  return COLL_OK;
}

coll_status_t msccl_place_scratch(const msccl_scratch_t *scratch, plan_t *plan) {
  placer_t placer = {.scratch = scratch, .plan = plan};
  coll_status_t status = create(&placer);
  if (status == COLL_OK) status = place_all(&placer);
  free(placer.first);
  free(placer.parent);
  free(placer.part);
  free(placer.is_joined);
  free(placer.place);
  return status;
}
