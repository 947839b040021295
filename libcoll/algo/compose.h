/*
 * The composition operator: an algorithm over the dimensions of a grid of ranks (grid.h) from
 * one-dimensional algorithms, one phase (embed.h) per dimension. Allreduce is a reduce-scatter
 * along each dimension but the outermost, from the innermost one on, an allreduce along the
 * outermost, and allgathers back. Other collectives have one phase per dimension.
 *
 * A one-dimensional algorithm is at once one of every grid, and a new kind of grid is a row of
 * composed.c.
 */
#ifndef ALGO_COMPOSE_H
#define ALGO_COMPOSE_H

#include "algo/embed.h"
#include "algo/grid.h"

struct algo_composition {
  algo_grid_kind_t grid;
  const algo_t *along[COLL_COLLECTIVE_COUNT]; /* a dimension; allreduce: the outermost one */
};

/* What the programs of all ranks of a plan share. */
typedef struct algo_composer {
  const algo_composition_t *by;
  plan_t *plan;
  algo_grid_t *grid;
  int32_t *line; /* ranks of the line of the last phase */
  int32_t *at;   /* chunks of the last phase's blocks */
} algo_composer_t;

/* Fills in the plan's header. Owned by the caller until algo_composer_free; the plan must live as
 * long. */
coll_status_t algo_composer_create(plan_t *plan, const algo_composition_t *by,
                                   algo_composer_t **composer);
void algo_composer_free(algo_composer_t *composer);

/* Emits the program of e->rank. */
void algo_compose_build(plan_emitter_t *e, algo_composer_t *composer);

/* ---- for compose_*.c -------------------------------------------------------------------------*/

/* A phase of the collective along the dimension: algorithm, ranks and this rank's index. */
algo_phase_t algo_compose_line(const plan_emitter_t *e, const algo_composer_t *composer,
                               coll_collective_t collective, int32_t dim);

/* The coordinate of the rank (of its owner, if it is an extra) along the dimension. */
int32_t algo_compose_coordinate(const algo_composer_t *composer, int32_t rank, int32_t dim);

/* The needs of a phase of the collective along the dimension. */
coll_status_t algo_compose_needs(const algo_composer_t *composer, coll_collective_t collective,
                                 int32_t dim, bool in_one_block, algo_needs_t *needs);

/* *value = the larger of both. */
void algo_compose_raise(int32_t *value, int32_t least);

/* Makes the header allow for a phase whose chunks are runs of `unit` chunks. */
void algo_compose_allow(plan_t *plan, const algo_needs_t *needs, int32_t unit);

/* One block, cut by all dimensions: allreduce, reduce, broadcast, and barrier. */
coll_status_t algo_compose_vector_outline(const algo_composer_t *composer);
void algo_compose_vector_build(plan_emitter_t *e, const algo_composer_t *composer);

/* A block of each rank: allgather, reduce_scatter, gather, scatter, alltoall. */
coll_status_t algo_compose_blocks_outline(const algo_composer_t *composer);
void algo_compose_blocks_build(plan_emitter_t *e, const algo_composer_t *composer);

#endif
