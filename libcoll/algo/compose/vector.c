/*
 * Compositions of collectives over one block, and of barriers. Extras (grid.h) give their operand
 * to their owner first and get the result at the end.
 */
#include "algo/common.h"
#include "algo/compose/compose.h"

/* ---- headers --------------------------------------------------------------------------------*/

/* The least common multiple. */
static int32_t multiple_of(int32_t a, int32_t b) {
  int32_t x = a, y = b;
  while (y != 0) {
    int32_t rest = x % y;
    x = y;
    y = rest;
  }
  return a / x * b;
}

/* A phase of any segment: on blocks of one `blocks`-th of the segment each. */
typedef struct phase_need {
  algo_needs_t needs;
  int32_t blocks;
} phase_need_t;

enum { NEEDS_MOST = ALGO_DIMS_MAX * 2 * ALGO_DIMS_MAX };

typedef struct phase_needs {
  phase_need_t each[NEEDS_MOST];
  int32_t count;
} phase_needs_t;

static coll_status_t add_need(const algo_composer_t *composer, coll_collective_t collective,
                              int32_t dim, int32_t blocks, phase_needs_t *all) {
  phase_need_t *need = &all->each[all->count++];
  need->blocks = blocks;
  return algo_compose_needs(composer, collective, dim, true, &need->needs);
}

/* Reduce-scatter cuts the block, and allgather the same parts of it; then allreduce. */
static coll_status_t add_allreduce(const algo_composer_t *composer, phase_needs_t *all) {
  int32_t blocks = 1;
  for (int32_t d = composer->grid->dims - 1; d > 0; d--) {
    blocks *= composer->grid->extents[d];
    COLL_TRY(add_need(composer, COLL_REDUCE_SCATTER, d, blocks, all));
    COLL_TRY(add_need(composer, COLL_ALLGATHER, d, blocks, all));
  }
  return add_need(composer, COLL_ALLREDUCE, 0, blocks, all);
}

/* Phases on the whole block, each along one dimension. */
static coll_status_t add_whole(const algo_composer_t *composer, phase_needs_t *all) {
  for (int32_t d = 0; d < composer->grid->dims; d++) {
    COLL_TRY(add_need(composer, composer->plan->shape.collective, d, 1, all));
  }
  return COLL_OK;
}

/* The phases of all segments. Those that differ in direction only need the same. */
static coll_status_t find_needs(algo_composer_t *composer, phase_needs_t *all) {
  for (int32_t segment = 0; segment < composer->segments; segment += 2) {
    if (segment > 0 && composer->grids[segment] == NULL) break;
    algo_compose_enter(composer, segment);
    if (composer->plan->shape.collective == COLL_ALLREDUCE) {
      COLL_TRY(add_allreduce(composer, all));
    } else {
      COLL_TRY(add_whole(composer, all));
    }
  }
  algo_compose_enter(composer, 0);
  return COLL_OK;
}

/* Cuts the block into the segments, and each so that it suits all phases. */
static coll_status_t phases_outline(algo_composer_t *composer) {
  phase_needs_t all = {.count = 0};
  int32_t length = 1, areas = 0;
  COLL_TRY(find_needs(composer, &all));
  for (int32_t i = 0; i < all.count; i++) {
    const phase_need_t *need = &all.each[i];
    length = multiple_of(length, need->blocks * need->needs.parts);
    algo_compose_raise(&areas, need->needs.scratch_chunks);
  }
  for (int32_t i = 0; i < all.count; i++) {
    const phase_need_t *need = &all.each[i];
    algo_compose_allow(composer, &need->needs, length / need->blocks / need->needs.parts);
  }
  composer->plan->parts = composer->segments * length;
  composer->plan->scratch_chunks = areas * composer->plan->parts;
  return COLL_OK;
}

coll_status_t algo_compose_vector_outline(algo_composer_t *composer) {
  plan_t *plan = composer->plan;
  bool has_extras = composer->grid->members < plan->shape.size;
  coll_collective_t collective = plan->shape.collective;
  COLL_TRY(phases_outline(composer));
  if (collective == COLL_BARRIER) {
    plan->reach = PLAN_REACH_SCRATCH;
    return COLL_OK;
  }
  if (has_extras) {
    algo_compose_raise(&plan->depth, 1);
    algo_compose_raise(&plan->message_chunks, 1);
  }
  if (has_extras && base_collective_reduces(collective)) {
    algo_compose_raise(&plan->scratch_chunks, plan->parts); /* what arrives from extras */
  }
  bool holds = has_extras || composer->grid->dims > 1;
  if (collective == COLL_REDUCE && holds) plan->scratch_chunks += plan->parts; /* held_block */
  return COLL_OK;
}

/* ---- extras ---------------------------------------------------------------------------------*/

static bool is_extra(const algo_composer_t *composer, int32_t rank) {
  return algo_grid_is_extra(composer->grid, rank);
}

/* The extras of this rank, from `from` on; size: none. */
static int32_t next_extra(const plan_emitter_t *e, const algo_composer_t *composer, int32_t from) {
  const int32_t *position = composer->grid->position;
  while (from < e->plan->shape.size &&
         (position[from] != position[e->rank] || !is_extra(composer, from))) {
    from++;
  }
  return from;
}

static int32_t owner_of(const algo_composer_t *composer, int32_t rank) {
  return composer->grid->ranks[composer->grid->position[rank]];
}

/* The segment in a block of the buffer that begins at chunk `block`. */
static plan_span_t segment_of(const plan_emitter_t *e, const algo_composer_t *composer,
                              plan_buffer_t buffer, int32_t block) {
  int32_t length = e->plan->parts / composer->segments;
  return algo_own(e, buffer, block + composer->segment * length, length);
}

/* In the last block of SCRATCH. */
static plan_span_t held_block(const plan_emitter_t *e, const algo_composer_t *composer) {
  return segment_of(e, composer, PLAN_SCRATCH, e->plan->scratch_chunks - e->plan->parts);
}

static void send_span(plan_emitter_t *e, const algo_composer_t *composer, int32_t peer,
                      plan_span_t src) {
  algo_send_pieces_by(e, algo_compose_lane(composer), peer, src);
}

static void recv_span(plan_emitter_t *e, const algo_composer_t *composer, int32_t peer,
                      plan_span_t dst) {
  algo_recv_pieces_by(e, algo_compose_lane(composer), peer, dst);
}

/* Reduces the operands of the rank's extras and its own. Returns the buffer of the result, which is
 * `to` if there are extras. */
static plan_span_t reduce_extras(plan_emitter_t *e, const algo_composer_t *composer,
                                 plan_span_t to) {
  int32_t size = e->plan->shape.size;
  plan_span_t held = segment_of(e, composer, PLAN_INPUT, 0);
  for (int32_t i = 0; (i = next_extra(e, composer, i)) < size; i++) {
    plan_span_t arrived = segment_of(e, composer, PLAN_SCRATCH, 0);
    plan_span_t sources[2] = {held, arrived};
    recv_span(e, composer, i, arrived);
    plan_emit_reduce(e, algo_compose_lane(composer), to, sources, 2);
    held = to;
  }
  return held;
}

static void send_to_extras(plan_emitter_t *e, const algo_composer_t *composer, plan_span_t result) {
  int32_t size = e->plan->shape.size;
  for (int32_t i = 0; (i = next_extra(e, composer, i)) < size; i++) {
    if (base_collective_is_rooted(e->plan->shape.collective) && i == e->plan->shape.root) continue;
    send_span(e, composer, i, result);
  }
}

/* ---- phases ---------------------------------------------------------------------------------*/

static algo_place_t place_of(plan_span_t span) {
  return (algo_place_t){.buffer = span.buffer, .first = span.first};
}

/* A phase on the block's chunks from `first` on. */
static algo_phase_t phase_on(const plan_emitter_t *e, const algo_composer_t *composer,
                             coll_collective_t collective, int32_t dim, int32_t first) {
  algo_phase_t phase = algo_compose_line(e, composer, collective, dim);
  phase.in_one_block = true;
  phase.vector = first;
  return phase;
}

static void allreduce_build(plan_emitter_t *e, algo_composer_t *composer) {
  const algo_grid_t *grid = composer->grid;
  plan_span_t result = segment_of(e, composer, PLAN_OUTPUT, 0);
  plan_span_t held = reduce_extras(e, composer, result);
  int32_t length = result.count, first = result.first;
  bool in_place = held.buffer == PLAN_OUTPUT || e->program->in_place;
  for (int32_t d = grid->dims - 1; d > 0; d--) {
    algo_phase_t phase = phase_on(e, composer, COLL_REDUCE_SCATTER, d, first);
    length /= grid->extents[d];
    phase.block_chunks = length;
    phase.in_place = in_place;
    phase.input = (algo_place_t){.buffer = held.buffer, .first = first};
    first += phase.index * length;
    phase.output = (algo_place_t){.buffer = PLAN_OUTPUT, .first = first};
    algo_compose_emit(e, composer, &phase);
    held.buffer = PLAN_OUTPUT;
    in_place = true;
  }
  algo_phase_t top = phase_on(e, composer, COLL_ALLREDUCE, 0, first);
  top.block_chunks = length;
  top.in_place = in_place;
  top.input = (algo_place_t){.buffer = held.buffer, .first = first};
  top.output = (algo_place_t){.buffer = PLAN_OUTPUT, .first = first};
  algo_compose_emit(e, composer, &top);
  for (int32_t d = 1; d < grid->dims; d++) {
    algo_phase_t phase = phase_on(e, composer, COLL_ALLGATHER, d, 0);
    phase.in_place = true;
    phase.input = (algo_place_t){.buffer = PLAN_OUTPUT, .first = first};
    first -= phase.index * length;
    phase.vector = first;
    phase.output = (algo_place_t){.buffer = PLAN_OUTPUT, .first = first};
    phase.block_chunks = length;
    length *= grid->extents[d];
    algo_compose_emit(e, composer, &phase);
  }
  send_to_extras(e, composer, result);
}

/* Whether the rank is on the line of the root along the dimension, in all dimensions after it. */
static bool is_in_plane(const plan_emitter_t *e, const algo_composer_t *composer, int32_t dim) {
  const algo_grid_t *grid = composer->grid;
  int32_t stride = algo_grid_stride(grid, dim), root = grid->position[e->plan->shape.root];
  return grid->position[e->rank] % stride == root % stride;
}

/* Along each dimension to the root's coordinate, from the innermost on. */
static void reduce_build(plan_emitter_t *e, algo_composer_t *composer) {
  const algo_grid_t *grid = composer->grid;
  int32_t root = e->plan->shape.root;
  bool is_root = e->rank == root;
  plan_span_t between = held_block(e, composer);
  plan_span_t held = reduce_extras(e, composer, between);
  for (int32_t d = grid->dims - 1; d >= 0 && is_in_plane(e, composer, d); d--) {
    algo_phase_t phase = phase_on(e, composer, COLL_REDUCE, d, held.first % e->plan->parts);
    bool is_last = is_root && d == 0;
    plan_span_t to = is_last ? segment_of(e, composer, PLAN_OUTPUT, 0) : between;
    phase.block_chunks = to.count;
    phase.input = place_of(held);
    phase.output = place_of(to);
    phase.in_place =
        held.buffer == to.buffer ||
        (to.buffer == PLAN_OUTPUT && held.buffer == PLAN_INPUT && e->program->in_place);
    algo_compose_emit(e, composer, &phase);
    held = to;
  }
  if (e->rank == owner_of(composer, root) && !is_root) send_span(e, composer, root, held);
}

/* The mirror image of reduce. */
static void broadcast_build(plan_emitter_t *e, algo_composer_t *composer) {
  const algo_grid_t *grid = composer->grid;
  int32_t root = e->plan->shape.root;
  plan_span_t to = segment_of(e, composer, PLAN_OUTPUT, 0);
  bool is_root = e->rank == root, is_first = true;
  if (e->rank == owner_of(composer, root) && !is_root) recv_span(e, composer, root, to);
  for (int32_t d = 0; d < grid->dims; d++) {
    if (!is_in_plane(e, composer, d)) continue;
    algo_phase_t phase = phase_on(e, composer, COLL_BROADCAST, d, to.first);
    bool from_input = is_root && is_first;
    phase.block_chunks = to.count;
    phase.input = place_of(from_input ? segment_of(e, composer, PLAN_INPUT, 0) : to);
    phase.output = place_of(to);
    phase.in_place = from_input ? e->program->in_place : phase.index == phase.root;
    algo_compose_emit(e, composer, &phase);
    is_first = false;
  }
  send_to_extras(e, composer, to);
}

/* After the phase along a dimension, a rank knows that all have entered that its line's ranks knew
 * of. */
static void barrier_build(plan_emitter_t *e, algo_composer_t *composer) {
  int32_t size = e->plan->shape.size;
  for (int32_t i = 0; (i = next_extra(e, composer, i)) < size; i++) plan_emit_wait(e, 0, i);
  for (int32_t d = composer->grid->dims - 1; d >= 0; d--) {
    algo_phase_t phase = algo_compose_line(e, composer, COLL_BARRIER, d);
    algo_compose_emit(e, composer, &phase);
  }
  for (int32_t i = 0; (i = next_extra(e, composer, i)) < size; i++) plan_emit_signal(e, 0, i);
}

static void extra_build(plan_emitter_t *e, const algo_composer_t *composer) {
  coll_collective_t collective = e->plan->shape.collective;
  int32_t owner = owner_of(composer, e->rank);
  bool is_root = e->rank == e->plan->shape.root;
  if (collective == COLL_BARRIER) {
    plan_emit_signal(e, 0, owner);
    plan_emit_wait(e, 0, owner);
    return;
  }
  plan_span_t input = segment_of(e, composer, PLAN_INPUT, 0);
  if (collective != COLL_BROADCAST || is_root) send_span(e, composer, owner, input);
  if (collective == COLL_BROADCAST && is_root) {
    plan_emit_input_to_output(e, algo_compose_lane(composer), input.first, input.first,
                              input.count);
  } else if (collective != COLL_REDUCE || is_root) {
    recv_span(e, composer, owner, segment_of(e, composer, PLAN_OUTPUT, 0));
  }
}

void algo_compose_vector_build(plan_emitter_t *e, algo_composer_t *composer) {
  if (is_extra(composer, e->rank)) {
    extra_build(e, composer);
    return;
  }
  switch (e->plan->shape.collective) {
    case COLL_ALLREDUCE: allreduce_build(e, composer); return;
    case COLL_REDUCE: reduce_build(e, composer); return;
    case COLL_BROADCAST: broadcast_build(e, composer); return;
    default: barrier_build(e, composer); return;
  }
}
