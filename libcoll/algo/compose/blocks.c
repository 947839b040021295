/*
 * Compositions of collectives over a block of each rank. Blocks are cut by segments only: chunk c
 * of each block belongs to segment c. Where groups differ in size, or blocks of a group do not
 * follow each other but must, one phase among all ranks does it: a ring in the order of the grid
 * sends between hosts what has to be sent, and no more.
 */
#include "algo/common.h"
#include "algo/compose/compose.h"

static bool is_even(const algo_grid_t *grid) {
  return grid->members == grid->size;
}

/* Whether the composition has more than one phase. */
static bool has_phases(const algo_composer_t *composer) {
  coll_collective_t collective = composer->plan->shape.collective;
  bool takes_any_order = collective == COLL_ALLGATHER || collective == COLL_REDUCE_SCATTER;
  return takes_any_order ? is_even(composer->grid) : composer->grid->is_ordered;
}

/* Positions that have the same coordinates before the dimension. */
static int32_t volume_from(const algo_grid_t *grid, int32_t dim) {
  return algo_grid_stride(grid, dim) * grid->extents[dim];
}

/* ---- one phase among all --------------------------------------------------------------------*/

/* The ranks in the order of the grid, each followed by its extras. Returns this rank's index. */
static int32_t order_all(const algo_composer_t *composer, int32_t rank) {
  const algo_grid_t *grid = composer->grid;
  int32_t count = 0, index = 0;
  if (grid->is_ordered) {
    for (int32_t i = 0; i < grid->size; i++) composer->line[i] = i;
    return rank;
  }
  for (int32_t i = 0; i < grid->members; i++) {
    composer->line[count++] = grid->ranks[i];
    for (int32_t each = 0; !is_even(grid) && each < grid->size; each++) {
      if (grid->position[each] == i && grid->ranks[i] != each) composer->line[count++] = each;
    }
  }
  while (composer->line[index] != rank) index++;
  return index;
}

/* A ring names single blocks only, so it can take the ranks in any order; others cannot. */
static void build_one_phase(plan_emitter_t *e, algo_composer_t *composer) {
  coll_collective_t collective = e->plan->shape.collective;
  algo_phase_t phase = {.algo = composer->by->along[collective],
                        .size = e->plan->shape.size,
                        .index = e->rank,
                        .ranks = composer->line,
                        .root = e->plan->shape.root,
                        .in_place = e->program->in_place,
                        .input = {.buffer = PLAN_INPUT},
                        .output = {.buffer = PLAN_OUTPUT},
                        .block_chunks = 1,
                        .stride = 1};
  if (collective == COLL_ALLGATHER || collective == COLL_REDUCE_SCATTER) {
    phase.index = order_all(composer, e->rank);
    algo_place_t *blocks = collective == COLL_ALLGATHER ? &phase.output : &phase.input;
    blocks->at = composer->line;
  } else {
    for (int32_t i = 0; i < phase.size; i++) composer->line[i] = i;
  }
  algo_compose_emit(e, composer, &phase);
}

static coll_status_t outline_one_phase(algo_composer_t *composer) {
  plan_t *plan = composer->plan;
  algo_needs_t needs;
  COLL_TRY(algo_phase_needs(composer->by->along[plan->shape.collective], plan->shape.size,
                            plan->shape.root, false, &needs));
  plan->scratch_chunks = needs.scratch_chunks;
  algo_compose_allow(composer, &needs, 1);
  return COLL_OK;
}

/* ---- headers --------------------------------------------------------------------------------*/

/* Blocks that each message of a phase along the dimension is made of. */
static int32_t blocks_per_message(const algo_composer_t *composer, int32_t dim) {
  switch (composer->plan->shape.collective) {
    case COLL_GATHER:
    case COLL_SCATTER:
    case COLL_ALLTOALL: return algo_grid_stride(composer->grid, dim);
    default: return 1;
  }
}

/* Chunks of SCRATCH that hold blocks between phases. */
static int32_t held_blocks(const algo_composer_t *composer) {
  const algo_grid_t *grid = composer->grid;
  int32_t held = 0;
  switch (composer->plan->shape.collective) {
    case COLL_REDUCE_SCATTER: /* a block for each coordinate of the dimensions before */
      for (int32_t d = 1; d < grid->dims; d++) held += grid->size / volume_from(grid, d);
      return held;
    case COLL_GATHER:
    case COLL_SCATTER: return grid->dims > 1 ? volume_from(grid, 1) : 0;
    case COLL_ALLTOALL: return grid->dims > 1 ? (grid->dims - 1) * grid->size : 0;
    default: return 0;
  }
}

/* The segment's chunk of a block. */
static int32_t chunk_of(const algo_composer_t *composer, int32_t block) {
  return block * composer->segments + composer->segment;
}

static coll_status_t outline_segment(algo_composer_t *composer) {
  int32_t most = 0;
  for (int32_t d = 0; d < composer->grid->dims; d++) {
    algo_needs_t needs;
    int32_t unit = blocks_per_message(composer, d);
    COLL_TRY(algo_compose_needs(composer, composer->plan->shape.collective, d, false, &needs));
    algo_compose_allow(composer, &needs, unit);
    algo_compose_raise(&most, needs.scratch_chunks * unit);
  }
  int32_t blocks = held_blocks(composer) + most;
  if (blocks > 0) {
    algo_compose_raise(&composer->plan->scratch_chunks, chunk_of(composer, blocks - 1) + 1);
  }
  return COLL_OK;
}

coll_status_t algo_compose_blocks_outline(algo_composer_t *composer) {
  composer->plan->parts = composer->segments;
  if (!has_phases(composer)) return outline_one_phase(composer);
  for (int32_t segment = 0; segment < composer->segments; segment++) {
    algo_compose_enter(composer, segment);
    COLL_TRY(outline_segment(composer));
  }
  return COLL_OK;
}

/* A phase along the dimension, with SCRATCH behind the blocks that are held there. */
static algo_phase_t phase_along(const plan_emitter_t *e, const algo_composer_t *composer,
                                int32_t dim) {
  algo_phase_t phase = algo_compose_line(e, composer, e->plan->shape.collective, dim);
  phase.scratch = chunk_of(composer, held_blocks(composer));
  phase.stride = composer->segments;
  return phase;
}

/* ---- allgather and reduce-scatter -----------------------------------------------------------
 * A stripe of a dimension: the blocks of the ranks on the line through this rank's position whose
 * coordinates before the dimension are those of the stripe. */

static int32_t stripes_of(const algo_grid_t *grid, int32_t dim) {
  return grid->size / volume_from(grid, dim);
}

/* Sets composer->at to the segment's chunks of the stripe's blocks. */
static void find_stripe(const algo_composer_t *composer, int32_t position, int32_t dim,
                        int32_t stripe) {
  const algo_grid_t *grid = composer->grid;
  int32_t stride = algo_grid_stride(grid, dim);
  int32_t first = stripe * volume_from(grid, dim) + position % stride;
  for (int32_t i = 0; i < grid->extents[dim]; i++) {
    composer->at[i] = chunk_of(composer, grid->ranks[first + i * stride]);
  }
}

/* The segment's chunks of the blocks from `block` on. */
static algo_place_t place_at(const algo_composer_t *composer, plan_buffer_t buffer, int32_t block) {
  return (algo_place_t){.buffer = buffer, .first = chunk_of(composer, block)};
}

/* The outermost dimension first: after a dimension, a rank has the blocks of all whose coordinates
 * behind that dimension are its own. So no block goes over a link between hosts twice. */
static void allgather_build(plan_emitter_t *e, algo_composer_t *composer) {
  const algo_grid_t *grid = composer->grid;
  for (int32_t d = 0; d < grid->dims; d++) {
    for (int32_t stripe = 0; stripe < stripes_of(grid, d); stripe++) {
      algo_phase_t phase = phase_along(e, composer, d);
      find_stripe(composer, grid->position[e->rank], d, stripe);
      phase.output = (algo_place_t){.buffer = PLAN_OUTPUT, .at = composer->at};
      phase.input = place_at(composer, PLAN_INPUT, 0);
      phase.in_place = e->program->in_place;
      if (d > 0) {
        phase.input = (algo_place_t){.buffer = PLAN_OUTPUT, .first = composer->at[phase.index]};
        phase.in_place = true;
      }
      algo_compose_emit(e, composer, &phase);
    }
  }
}

/* The mirror image: the innermost dimension first. SCRATCH has a block for each stripe of each
 * dimension but the outermost. */
static void reduce_scatter_build(plan_emitter_t *e, algo_composer_t *composer) {
  const algo_grid_t *grid = composer->grid;
  int32_t from = 0, to = 0;
  for (int32_t d = grid->dims - 1; d >= 0; d--) {
    int32_t stripes = stripes_of(grid, d);
    bool is_first = d == grid->dims - 1;
    for (int32_t stripe = 0; stripe < stripes; stripe++) {
      algo_phase_t phase = phase_along(e, composer, d);
      find_stripe(composer, grid->position[e->rank], d, stripe);
      phase.input = is_first ? (algo_place_t){.buffer = PLAN_INPUT, .at = composer->at}
                             : place_at(composer, PLAN_SCRATCH, from + stripe * grid->extents[d]);
      phase.output = d > 0 ? place_at(composer, PLAN_SCRATCH, to + stripe)
                           : place_at(composer, PLAN_OUTPUT, 0);
      phase.in_place = is_first && d == 0 && e->program->in_place;
      algo_compose_emit(e, composer, &phase);
    }
    from = to;
    to += stripes;
  }
}

/* ---- gather and scatter ---------------------------------------------------------------------
 * Only ranks whose coordinates behind the dimension are the root's take part in a phase. They hold
 * the blocks of a run of ranks: the root in its buffer, others in SCRATCH, as those of the run of
 * their coordinate along the outermost dimension. */

static bool is_in_plane(const plan_emitter_t *e, const algo_composer_t *composer, int32_t dim) {
  int32_t stride = algo_grid_stride(composer->grid, dim);
  return e->rank % stride == e->plan->shape.root % stride;
}

/* The place of the run of ranks that have this rank's coordinates before the dimension; of this
 * rank's block only, if that is the number of dimensions. */
static algo_place_t place_of_run(const plan_emitter_t *e, const algo_composer_t *composer,
                                 int32_t dim, plan_buffer_t buffer) {
  const algo_grid_t *grid = composer->grid;
  int32_t volume = dim < grid->dims ? volume_from(grid, dim) : 1;
  int32_t first = e->rank / volume * volume;
  if (e->rank == e->plan->shape.root) return (algo_place_t){.buffer = buffer, .first = first};
  int32_t whole = grid->dims > 1 ? volume_from(grid, 1) : 1;
  return (algo_place_t){.buffer = PLAN_SCRATCH, .first = first % whole};
}

static void gather_build(plan_emitter_t *e, algo_composer_t *composer) {
  const algo_grid_t *grid = composer->grid;
  bool is_root = e->rank == e->plan->shape.root;
  for (int32_t d = grid->dims - 1; d >= 0 && is_in_plane(e, composer, d); d--) {
    algo_phase_t phase = phase_along(e, composer, d);
    bool is_first = d == grid->dims - 1;
    phase.block_chunks = algo_grid_stride(grid, d);
    phase.input = is_first ? (algo_place_t){.buffer = PLAN_INPUT}
                           : place_of_run(e, composer, d + 1, PLAN_OUTPUT);
    phase.output = place_of_run(e, composer, d, PLAN_OUTPUT);
    phase.in_place = is_first ? is_root && e->program->in_place : true;
    algo_compose_emit(e, composer, &phase);
  }
}

static void scatter_build(plan_emitter_t *e, algo_composer_t *composer) {
  const algo_grid_t *grid = composer->grid;
  bool is_root = e->rank == e->plan->shape.root;
  for (int32_t d = 0; d < grid->dims; d++) {
    if (!is_in_plane(e, composer, d)) continue;
    algo_phase_t phase = phase_along(e, composer, d);
    bool is_last = d == grid->dims - 1;
    phase.block_chunks = algo_grid_stride(grid, d);
    phase.input = place_of_run(e, composer, d, PLAN_INPUT);
    phase.output = is_last ? (algo_place_t){.buffer = PLAN_OUTPUT}
                           : place_of_run(e, composer, d + 1, PLAN_INPUT);
    phase.in_place = is_last ? is_root && e->program->in_place : true;
    algo_compose_emit(e, composer, &phase);
  }
}

/* ---- alltoall -------------------------------------------------------------------------------
 * Before the phase along a dimension, a rank holds blocks by their destination's coordinates up to
 * that dimension, then by their source's behind it; after it, by one destination coordinate less.
 * So the blocks that go to one rank follow each other, and messages between hosts are few. */

static void alltoall_build(plan_emitter_t *e, algo_composer_t *composer) {
  const algo_grid_t *grid = composer->grid;
  plan_buffer_t from = PLAN_INPUT;
  int32_t from_first = 0, to_first = 0;
  for (int32_t d = grid->dims - 1; d >= 0; d--) {
    int32_t volume = volume_from(grid, d);
    for (int32_t run = 0; run < grid->size / volume; run++) {
      algo_phase_t phase = phase_along(e, composer, d);
      phase.block_chunks = algo_grid_stride(grid, d);
      phase.input = (algo_place_t){.buffer = from, .first = from_first + run * volume};
      phase.output = (algo_place_t){.buffer = PLAN_OUTPUT, .first = run * volume};
      if (d > 0) {
        phase.output = (algo_place_t){.buffer = PLAN_SCRATCH, .first = to_first + run * volume};
      }
      algo_compose_emit(e, composer, &phase);
    }
    from = PLAN_SCRATCH;
    from_first = to_first;
    to_first += grid->size;
  }
}

void algo_compose_blocks_build(plan_emitter_t *e, algo_composer_t *composer) {
  if (!has_phases(composer)) {
    build_one_phase(e, composer);
    return;
  }
  switch (e->plan->shape.collective) {
    case COLL_ALLGATHER: allgather_build(e, composer); return;
    case COLL_REDUCE_SCATTER: reduce_scatter_build(e, composer); return;
    case COLL_GATHER: gather_build(e, composer); return;
    case COLL_SCATTER: scatter_build(e, composer); return;
    default: alltoall_build(e, composer); return;
  }
}
