/*
 * What all compositions share: the grid, the lines of phases, and the header.
 */
#include "algo/compose/compose.h"

#include <assert.h>
#include <stdlib.h>

#include "base/alloc.h"

int32_t algo_compose_coordinate(const algo_composer_t *composer, int32_t rank, int32_t dim) {
  return algo_grid_coordinate(composer->grid, composer->grid->position[rank], dim);
}

algo_phase_t algo_compose_line(const plan_emitter_t *e, const algo_composer_t *composer,
                               coll_collective_t collective, int32_t dim) {
  const algo_grid_t *grid = composer->grid;
  int32_t stride = algo_grid_stride(grid, dim);
  int32_t index = algo_compose_coordinate(composer, e->rank, dim);
  int32_t first = grid->position[e->rank] - index * stride;
  for (int32_t i = 0; i < grid->extents[dim]; i++) {
    composer->line[i] = grid->ranks[first + i * stride];
  }
  bool is_rooted = base_collective_is_rooted(collective);
  return (algo_phase_t){
      .algo = composer->by->along[collective],
      .size = grid->extents[dim],
      .index = index,
      .ranks = composer->line,
      .root = is_rooted ? algo_compose_coordinate(composer, e->plan->shape.root, dim) : 0,
      .block_chunks = 1,
      .stride = 1};
}

coll_status_t algo_compose_needs(const algo_composer_t *composer, coll_collective_t collective,
                                 int32_t dim, bool in_one_block, algo_needs_t *needs) {
  bool is_rooted = base_collective_is_rooted(collective);
  int32_t root = is_rooted ? algo_compose_coordinate(composer, composer->plan->shape.root, dim) : 0;
  return algo_phase_needs(composer->by->along[collective], composer->grid->extents[dim], root,
                          in_one_block, needs);
}

void algo_compose_raise(int32_t *value, int32_t least) {
  if (*value < least) *value = least;
}

void algo_compose_allow(algo_composer_t *composer, const algo_needs_t *needs, int32_t unit) {
  plan_t *plan = composer->plan;
  algo_compose_raise(&composer->lanes, needs->lanes);
  algo_compose_raise(&plan->depth, needs->depth);
  algo_compose_raise(&plan->message_chunks, needs->message_chunks * unit);
}

static bool is_of_vector(coll_collective_t collective) {
  return collective == COLL_ALLREDUCE || collective == COLL_REDUCE ||
         collective == COLL_BROADCAST || collective == COLL_BARRIER;
}

void algo_compose_enter(algo_composer_t *composer, int32_t segment) {
  composer->segment = segment;
  composer->phases = 0;
  composer->grid = composer->grids[segment] != NULL ? composer->grids[segment] : composer->grids[0];
}

int32_t algo_compose_lane(const algo_composer_t *composer) {
  return composer->segment * composer->lanes;
}

/* Makes the segment wait until the one before it has left the phase. */
static void follow_segment(plan_emitter_t *e, const algo_composer_t *composer) {
  int32_t last = composer->ended[composer->phases];
  assert(composer->lanes == 1);
  if (composer->segment > 0 && last >= 0) {
    plan_emit_after(e, composer->segment, composer->segment - 1, last);
  }
}

void algo_compose_emit(plan_emitter_t *e, algo_composer_t *composer, algo_phase_t *phase) {
  bool is_pipelined = composer->by->segmentation == ALGO_PIPELINED;
  phase->lane = algo_compose_lane(composer);
  phase->lanes = composer->lanes;
  if (is_pipelined) follow_segment(e, composer);
  algo_emit_phase(e, phase);
  if (!is_pipelined) return;
  composer->ended[composer->phases++] = (int32_t)e->program->lanes[phase->lane].count - 1;
}

/* Counts the segments and makes their grids. */
static coll_status_t make_grids(algo_composer_t *composer) {
  algo_grid_t **grids = composer->grids;
  COLL_TRY(algo_grid_create(&composer->plan->shape, composer->by->grid, &grids[0]));
  switch (composer->by->segmentation) {
    case ALGO_UNSEGMENTED: composer->segments = 1; break;
    case ALGO_PIPELINED: composer->segments = ALGO_PIPELINED_SEGMENTS; break;
    case ALGO_MULTIPORT: composer->segments = 2 * grids[0]->dims; break;
  }
  if (composer->by->segmentation != ALGO_MULTIPORT) return COLL_OK;
  for (int32_t i = 1; i < composer->segments; i++) {
    COLL_TRY(algo_grid_turn(grids[0], i / 2, i % 2 == 1, &grids[i]));
  }
  return COLL_OK;
}

coll_status_t algo_composer_create(plan_t *plan, const algo_composition_t *by,
                                   algo_composer_t **composer) {
  size_t size = (size_t)plan->shape.size;
  algo_composer_t *made;
  COLL_TRY(base_alloc(1, sizeof *made, "a composed plan", (void **)&made));
  made->by = by;
  made->plan = plan;
  made->lanes = 1;
  coll_status_t status = make_grids(made);
  if (status == COLL_OK) {
    status = base_alloc(size, sizeof *made->line, "a composed plan", (void **)&made->line);
  }
  if (status == COLL_OK) {
    status = base_alloc(size, sizeof *made->at, "a composed plan", (void **)&made->at);
  }
  if (status == COLL_OK) {
    algo_compose_enter(made, 0);
    status = is_of_vector(plan->shape.collective) ? algo_compose_vector_outline(made)
                                                  : algo_compose_blocks_outline(made);
  }
  if (status != COLL_OK) {
    algo_composer_free(made);
    return status;
  }
  plan->lanes = made->segments * made->lanes;
  *composer = made;
  return COLL_OK;
}

void algo_composer_free(algo_composer_t *composer) {
  if (composer == NULL) return;
  for (int32_t i = 0; i < ALGO_SEGMENTS_MAX; i++) algo_grid_free(composer->grids[i]);
  free(composer->line);
  free(composer->at);
  free(composer);
}

void algo_compose_build(plan_emitter_t *e, algo_composer_t *composer) {
  for (int32_t segment = 0; segment < composer->segments; segment++) {
    algo_compose_enter(composer, segment);
    if (is_of_vector(e->plan->shape.collective)) {
      algo_compose_vector_build(e, composer);
    } else {
      algo_compose_blocks_build(e, composer);
    }
  }
}
