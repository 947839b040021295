/*
 * The composition operator: an algorithm over the dimensions of a grid of ranks (grid.h) from
 * one-dimensional algorithms, one phase (embed.h) per dimension. Allreduce is a reduce-scatter
 * along each dimension but the outermost, from the innermost one on, an allreduce along the
 * outermost, and allgathers back. Other collectives have one phase per dimension.
 *
 * The data may be cut into segments, each of which goes through all phases in lanes of its own, so
 * that links of different dimensions work at once.
 *
 * A one-dimensional algorithm is at once one of every grid, and a new kind of grid is a row of
 * composed.c.
 */
#ifndef ALGO_COMPOSE_COMPOSE_H
#define ALGO_COMPOSE_COMPOSE_H

#include "algo/compose/embed.h"
#include "algo/grid.h"

typedef enum algo_segmentation {
  ALGO_UNSEGMENTED,

  /* ALGO_PIPELINED_SEGMENTS; each enters a phase when the one before it has left it. While a
   * segment is between hosts, the next is inside. For phases of one lane. */
  ALGO_PIPELINED,

  /* Two for each dimension: each begins with another dimension or goes in another direction. */
  ALGO_MULTIPORT
} algo_segmentation_t;

enum { ALGO_PIPELINED_SEGMENTS = 4, ALGO_SEGMENTS_MAX = 2 * ALGO_DIMS_MAX };

struct algo_composition {
  algo_grid_kind_t grid;
  algo_segmentation_t segmentation;
  const algo_t *along[COLL_COLLECTIVE_COUNT]; /* a dimension; allreduce: the outermost one */
};

/* What the programs of all ranks of a plan share. */
typedef struct algo_composer {
  const algo_composition_t *by;
  plan_t *plan;
  int32_t segments;
  int32_t lanes;                         /* of a segment */
  algo_grid_t *grids[ALGO_SEGMENTS_MAX]; /* of the segments; only [0] if it is the same for all */

  /* Of the segment that is being built: */
  int32_t segment;
  const algo_grid_t *grid;
  int32_t phases;                   /* built so far */
  int32_t ended[2 * ALGO_DIMS_MAX]; /* pipelined: the last step of each phase; of phases not yet
                                       built, of the segment before */

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

/* Makes the segment the one that is being built. */
void algo_compose_enter(algo_composer_t *composer, int32_t segment);

/* Its first lane. */
int32_t algo_compose_lane(const algo_composer_t *composer);

/* Emits the next phase of the segment. */
void algo_compose_emit(plan_emitter_t *e, algo_composer_t *composer, algo_phase_t *phase);

/* The coordinate of the rank (of its owner, if it is an extra) along the dimension. */
int32_t algo_compose_coordinate(const algo_composer_t *composer, int32_t rank, int32_t dim);

/* The needs of a phase of the collective along the dimension. */
coll_status_t algo_compose_needs(const algo_composer_t *composer, coll_collective_t collective,
                                 int32_t dim, bool in_one_block, algo_needs_t *needs);

/* *value = the larger of both. */
void algo_compose_raise(int32_t *value, int32_t least);

/* Makes the header allow for a phase whose chunks are runs of `unit` chunks. */
void algo_compose_allow(algo_composer_t *composer, const algo_needs_t *needs, int32_t unit);

/* outline: the header. build: the steps of the segment that is being built.
 *
 * One block, cut by all dimensions: allreduce, reduce, broadcast, and barrier. */
coll_status_t algo_compose_vector_outline(algo_composer_t *composer);
void algo_compose_vector_build(plan_emitter_t *e, algo_composer_t *composer);

/* A block of each rank: allgather, reduce_scatter, gather, scatter, alltoall. */
coll_status_t algo_compose_blocks_outline(algo_composer_t *composer);
void algo_compose_blocks_build(plan_emitter_t *e, algo_composer_t *composer);

#endif
