/*
 * Compositions of collectives over one block, and of barriers. Extras (grid.h) give their operand
 * to their owner first and get the result at the end.
 */
#include "algo/common.h"
#include "algo/compose.h"

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

/* Reduce-scatter cuts the block, and allgather the same parts of it; then allreduce. */
static coll_status_t allreduce_outline(const algo_composer_t *composer) {
  plan_t *plan = composer->plan;
  const algo_grid_t *grid = composer->grid;
  algo_needs_t scatter[ALGO_DIMS_MAX], gather[ALGO_DIMS_MAX], top;
  int32_t blocks = 1, pieces;
  COLL_TRY(algo_compose_needs(composer, COLL_ALLREDUCE, 0, true, &top));
  pieces = top.parts;
  for (int32_t d = 1; d < grid->dims; d++) {
    COLL_TRY(algo_compose_needs(composer, COLL_REDUCE_SCATTER, d, true, &scatter[d]));
    COLL_TRY(algo_compose_needs(composer, COLL_ALLGATHER, d, true, &gather[d]));
    pieces = multiple_of(pieces, multiple_of(scatter[d].parts, gather[d].parts));
    blocks *= grid->extents[d];
  }
  plan->parts = blocks * pieces;
  int32_t length = plan->parts, areas = top.scratch_chunks;
  for (int32_t d = grid->dims - 1; d > 0; d--) {
    length /= grid->extents[d];
    algo_compose_allow(plan, &scatter[d], length / scatter[d].parts);
    algo_compose_allow(plan, &gather[d], length / gather[d].parts);
    algo_compose_raise(&areas, scatter[d].scratch_chunks);
    algo_compose_raise(&areas, gather[d].scratch_chunks);
  }
  algo_compose_allow(plan, &top, length / top.parts);
  plan->scratch_chunks = areas * plan->parts;
  return COLL_OK;
}

/* Phases on the whole block, each along one dimension. */
static coll_status_t whole_outline(const algo_composer_t *composer) {
  plan_t *plan = composer->plan;
  const algo_grid_t *grid = composer->grid;
  algo_needs_t needs[ALGO_DIMS_MAX];
  int32_t areas = 0;
  plan->parts = 1;
  for (int32_t d = 0; d < grid->dims; d++) {
    COLL_TRY(algo_compose_needs(composer, plan->shape.collective, d, true, &needs[d]));
    plan->parts = multiple_of(plan->parts, needs[d].parts);
    algo_compose_raise(&areas, needs[d].scratch_chunks);
  }
  for (int32_t d = 0; d < grid->dims; d++) {
    algo_compose_allow(plan, &needs[d], plan->parts / needs[d].parts);
  }
  plan->scratch_chunks = areas * plan->parts;
  return COLL_OK;
}

coll_status_t algo_compose_vector_outline(const algo_composer_t *composer) {
  plan_t *plan = composer->plan;
  bool has_extras = composer->grid->members < plan->shape.size;
  coll_collective_t collective = plan->shape.collective;
  if (collective == COLL_ALLREDUCE) {
    COLL_TRY(allreduce_outline(composer));
  } else {
    COLL_TRY(whole_outline(composer));
  }
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

/* The last block of SCRATCH. */
static plan_span_t held_block(const plan_emitter_t *e) {
  return plan_scratch(e, e->plan->scratch_chunks - e->plan->parts, e->plan->parts);
}

/* Reduces the operands of the rank's extras and its own. Returns the buffer of the result, which is
 * `to` if there are extras. */
static plan_span_t reduce_extras(plan_emitter_t *e, const algo_composer_t *composer,
                                 plan_span_t to) {
  int32_t size = e->plan->shape.size;
  plan_span_t held = plan_input(e, 0, e->plan->parts);
  for (int32_t i = 0; (i = next_extra(e, composer, i)) < size; i++) {
    plan_span_t arrived = plan_scratch(e, 0, e->plan->parts);
    plan_span_t sources[2] = {held, arrived};
    algo_recv_pieces(e, i, arrived);
    plan_emit_reduce(e, 0, to, sources, 2);
    held = to;
  }
  return held;
}

static void send_to_extras(plan_emitter_t *e, const algo_composer_t *composer, plan_span_t result) {
  int32_t size = e->plan->shape.size;
  for (int32_t i = 0; (i = next_extra(e, composer, i)) < size; i++) {
    if (base_collective_is_rooted(e->plan->shape.collective) && i == e->plan->shape.root) continue;
    algo_send_pieces(e, i, result);
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

static void allreduce_build(plan_emitter_t *e, const algo_composer_t *composer) {
  const algo_grid_t *grid = composer->grid;
  int32_t length = e->plan->parts, first = 0;
  plan_span_t held = reduce_extras(e, composer, plan_output(e, 0, length));
  bool in_place = held.buffer == PLAN_OUTPUT || e->program->in_place;
  for (int32_t d = grid->dims - 1; d > 0; d--) {
    algo_phase_t phase = phase_on(e, composer, COLL_REDUCE_SCATTER, d, first);
    length /= grid->extents[d];
    phase.block_chunks = length;
    phase.in_place = in_place;
    phase.input = (algo_place_t){.buffer = held.buffer, .first = first};
    first += phase.index * length;
    phase.output = (algo_place_t){.buffer = PLAN_OUTPUT, .first = first};
    algo_emit_phase(e, &phase);
    held.buffer = PLAN_OUTPUT;
    in_place = true;
  }
  algo_phase_t top = phase_on(e, composer, COLL_ALLREDUCE, 0, first);
  top.block_chunks = length;
  top.in_place = in_place;
  top.input = (algo_place_t){.buffer = held.buffer, .first = first};
  top.output = (algo_place_t){.buffer = PLAN_OUTPUT, .first = first};
  algo_emit_phase(e, &top);
  for (int32_t d = 1; d < grid->dims; d++) {
    algo_phase_t phase = phase_on(e, composer, COLL_ALLGATHER, d, 0);
    phase.in_place = true;
    phase.input = (algo_place_t){.buffer = PLAN_OUTPUT, .first = first};
    first -= phase.index * length;
    phase.vector = first;
    phase.output = (algo_place_t){.buffer = PLAN_OUTPUT, .first = first};
    phase.block_chunks = length;
    length *= grid->extents[d];
    algo_emit_phase(e, &phase);
  }
  send_to_extras(e, composer, plan_output(e, 0, e->plan->parts));
}

/* Whether the rank is on the line of the root along the dimension, in all dimensions after it. */
static bool is_in_plane(const plan_emitter_t *e, const algo_composer_t *composer, int32_t dim) {
  const algo_grid_t *grid = composer->grid;
  int32_t stride = algo_grid_stride(grid, dim), root = grid->position[e->plan->shape.root];
  return grid->position[e->rank] % stride == root % stride;
}

/* Along each dimension to the root's coordinate, from the innermost on. */
static void reduce_build(plan_emitter_t *e, const algo_composer_t *composer) {
  const algo_grid_t *grid = composer->grid;
  int32_t root = e->plan->shape.root, parts = e->plan->parts;
  bool is_root = e->rank == root;
  plan_span_t held = reduce_extras(e, composer, held_block(e));
  for (int32_t d = grid->dims - 1; d >= 0 && is_in_plane(e, composer, d); d--) {
    algo_phase_t phase = phase_on(e, composer, COLL_REDUCE, d, 0);
    plan_span_t to = is_root && d == 0 ? plan_output(e, 0, parts) : held_block(e);
    phase.block_chunks = parts;
    phase.input = place_of(held);
    phase.output = place_of(to);
    phase.in_place =
        held.buffer == to.buffer ||
        (to.buffer == PLAN_OUTPUT && held.buffer == PLAN_INPUT && e->program->in_place);
    algo_emit_phase(e, &phase);
    held = to;
  }
  if (e->rank == owner_of(composer, root) && !is_root) algo_send_pieces(e, root, held);
}

/* The mirror image of reduce. */
static void broadcast_build(plan_emitter_t *e, const algo_composer_t *composer) {
  const algo_grid_t *grid = composer->grid;
  int32_t root = e->plan->shape.root, parts = e->plan->parts;
  plan_span_t to = plan_output(e, 0, parts);
  bool is_root = e->rank == root, is_first = true;
  if (e->rank == owner_of(composer, root) && !is_root) algo_recv_pieces(e, root, to);
  for (int32_t d = 0; d < grid->dims; d++) {
    if (!is_in_plane(e, composer, d)) continue;
    algo_phase_t phase = phase_on(e, composer, COLL_BROADCAST, d, 0);
    bool from_input = is_root && is_first;
    phase.block_chunks = parts;
    phase.input = place_of(from_input ? plan_input(e, 0, parts) : to);
    phase.output = place_of(to);
    phase.in_place = from_input ? e->program->in_place : phase.index == phase.root;
    algo_emit_phase(e, &phase);
    is_first = false;
  }
  send_to_extras(e, composer, to);
}

/* After the phase along a dimension, a rank knows that all have entered that its line's ranks knew
 * of. */
static void barrier_build(plan_emitter_t *e, const algo_composer_t *composer) {
  int32_t size = e->plan->shape.size;
  for (int32_t i = 0; (i = next_extra(e, composer, i)) < size; i++) plan_emit_wait(e, 0, i);
  for (int32_t d = composer->grid->dims - 1; d >= 0; d--) {
    algo_phase_t phase = algo_compose_line(e, composer, COLL_BARRIER, d);
    algo_emit_phase(e, &phase);
  }
  for (int32_t i = 0; (i = next_extra(e, composer, i)) < size; i++) plan_emit_signal(e, 0, i);
}

static void extra_build(plan_emitter_t *e, const algo_composer_t *composer) {
  coll_collective_t collective = e->plan->shape.collective;
  int32_t owner = owner_of(composer, e->rank), parts = e->plan->parts;
  bool is_root = e->rank == e->plan->shape.root;
  if (collective == COLL_BARRIER) {
    plan_emit_signal(e, 0, owner);
    plan_emit_wait(e, 0, owner);
    return;
  }
  if (collective != COLL_BROADCAST || is_root) {
    algo_send_pieces(e, owner, plan_input(e, 0, parts));
  }
  if (collective == COLL_BROADCAST && is_root) {
    algo_copy_through(e);
  } else if (collective != COLL_REDUCE || is_root) {
    algo_recv_pieces(e, owner, plan_output(e, 0, parts));
  }
}

void algo_compose_vector_build(plan_emitter_t *e, const algo_composer_t *composer) {
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
