/* Spans that a step pairs are cut at the same blocks, so their pieces are of equal size. */
#include "engine/compute.h"

#include <assert.h>

#define DSTS_MAX DEVICE_DSTS_MAX

static int32_t pieces_of_pair(const engine_place_t *place, const plan_span_t *a,
                              const plan_span_t *b) {
  bool whole = engine_span_pieces(place, a) == 1 && engine_span_pieces(place, b) == 1;
  return whole ? 1 : engine_span_blocks(place, a);
}

/* Whether the span's memory can be reached from here at all. */
static coll_status_t check_mapped(const engine_place_t *place, const plan_span_t *span) {
  const engine_world_t *world = place->world;
  if (span->rank == world->rank || world->views[span->rank].buffers[span->buffer] != NULL) {
    return COLL_OK;
  }
  return base_fail(COLL_ERROR_SYSTEM, "rank %d: cannot map the %s buffer of rank %d", world->rank,
                   plan_buffer_name(span->buffer), span->rank);
}

coll_status_t engine_compute_copy(const engine_place_t *place, const plan_step_t *step) {
  COLL_TRY(check_mapped(place, &step->copy.dst));
  COLL_TRY(check_mapped(place, &step->copy.src));
  int32_t pieces = pieces_of_pair(place, &step->copy.dst, &step->copy.src);
  for (int32_t i = 0; i < pieces; i++) {
    engine_piece_t dst = engine_span_piece(place, &step->copy.dst, pieces, i);
    engine_piece_t src = engine_span_piece(place, &step->copy.src, pieces, i);
    assert(dst.elements == src.elements);
    COLL_TRY(
        place->world->device->copy(dst.ptr, src.ptr, dst.elements * place->call->element_bytes));
  }
  return COLL_OK;
}

/* A reduction, resolved: what it reads and every place its result goes to. */
typedef struct reduction {
  const plan_span_t *dsts[DSTS_MAX];
  int32_t dst_count;
  const plan_span_t *sources;
  int32_t source_count;
  int32_t pieces;
} reduction_t;

static bool same_span(const plan_span_t *a, const plan_span_t *b) {
  return a->rank == b->rank && a->buffer == b->buffer && a->first == b->first &&
         a->count == b->count;
}

/* Adds the copies of the result that come straight behind it. */
static void collect_copies(const plan_lane_t *lane, size_t index, reduction_t *r) {
  for (size_t i = index + 1; i < lane->count && r->dst_count < DSTS_MAX; i++) {
    const plan_step_t *step = &lane->steps[i];
    if (step->kind != PLAN_COPY || !same_span(&step->copy.src, r->dsts[0])) return;
    r->dsts[r->dst_count++] = &step->copy.dst;
  }
}

static coll_status_t count_pieces(const engine_place_t *place, reduction_t *r) {
  r->pieces = 1;
  for (int32_t i = 0; i < r->dst_count + r->source_count; i++) {
    const plan_span_t *span = i < r->dst_count ? r->dsts[i] : &r->sources[i - r->dst_count];
    COLL_TRY(check_mapped(place, span));
    int32_t needed = pieces_of_pair(place, r->dsts[0], span);
    if (needed > r->pieces) r->pieces = needed;
  }
  return COLL_OK;
}

static bool clash(const char *a, const char *b, size_t bytes) {
  return a != b && a < b + bytes && b < a + bytes;
}

/* Whether the places the result is copied to are each equal to or apart from all else, as the
 * device asks. If not, the reduction goes alone: its copies come after it has read all it reads. */
static bool copies_stay_clear(char *const dsts[], int32_t dst_count, const void *const sources[],
                              int32_t source_count, size_t bytes) {
  for (int32_t d = 1; d < dst_count; d++) {
    for (int32_t s = 0; s < source_count; s++) {
      if (clash(dsts[d], sources[s], bytes)) return false;
    }
    for (int32_t other = 0; other < d; other++) {
      if (clash(dsts[d], dsts[other], bytes)) return false;
    }
  }
  return true;
}

static coll_status_t reduce_piece(const engine_place_t *place, reduction_t *r, int32_t index) {
  const engine_call_t *call = place->call;
  const void *sources[DEVICE_SOURCES_MAX];
  char *dsts[DSTS_MAX];
  size_t elements = engine_span_piece(place, r->dsts[0], r->pieces, index).elements;
  if (elements == 0) return COLL_OK;
  for (int32_t s = 0; s < r->source_count; s++) {
    sources[s] = engine_span_piece(place, &r->sources[s], r->pieces, index).ptr;
  }
  for (int32_t d = 0; d < r->dst_count; d++) {
    dsts[d] = engine_span_piece(place, r->dsts[d], r->pieces, index).ptr;
  }
  if (!copies_stay_clear(dsts, r->dst_count, sources, r->source_count,
                         elements * call->element_bytes)) {
    r->dst_count = 1;
  }
  return place->world->device->reduce((void *const *)dsts, r->dst_count, sources, r->source_count,
                                      elements, call->dtype, call->op);
}

coll_status_t engine_compute_reduce(const engine_place_t *place, const plan_program_t *program,
                                    const plan_lane_t *lane, size_t index, size_t *steps) {
  const plan_step_t *step = &lane->steps[index];
  reduction_t r = {.dsts = {&step->reduce.dst},
                   .dst_count = 1,
                   .sources = &program->sources[step->reduce.first_source],
                   .source_count = step->reduce.source_count};
  assert(r.source_count <= DEVICE_SOURCES_MAX);
  collect_copies(lane, index, &r);
  COLL_TRY(count_pieces(place, &r));
  for (int32_t i = 0; i < r.pieces; i++) COLL_TRY(reduce_piece(place, &r, i));
  *steps = (size_t)r.dst_count;
  return COLL_OK;
}
