/*
 * A grid of ranks, which composed algorithms (compose.h) go through dimension by dimension. It
 * follows from the layout of a shape. Without a layout the ranks are grouped by their numbers, so
 * that composed algorithms work for every shape.
 */
#ifndef ALGO_GRID_H
#define ALGO_GRID_H

#include "plan/plan.h"

#define ALGO_DIMS_MAX (TOPO_LEVELS_MAX + 1)

typedef enum algo_grid_kind {
  ALGO_GRID_NESTED, /* the levels of the layout: hosts, ..., ranks of a group of the last level */
  ALGO_GRID_2D,     /* the grid of the layout; else hosts and their ranks; else near a square */
  ALGO_GRID_3D
} algo_grid_kind_t;

/* Where groups differ in size (only NESTED), the grid has hosts as rows, all as long as the
 * smallest host has ranks. The other ranks of a host are extras: each has an owner, a rank of the
 * grid on its host, that acts for it. */
typedef struct algo_grid {
  int32_t size;
  int32_t dims;                   /* >= 1; no extent is 1, unless it is the only one */
  int32_t extents[ALGO_DIMS_MAX]; /* the outermost dimension first */
  int32_t members;                /* product of the extents, <= size */
  int32_t *ranks;    /* [members]: the rank at each position, the last dimension fastest */
  int32_t *position; /* [size]: of a rank; of its owner, if it is an extra */
  bool is_ordered;   /* rank r is at position r, and there are no extras */
} algo_grid_t;

/* Owned by the caller until algo_grid_free. COLL_ERROR_MEMORY. */
coll_status_t algo_grid_create(const plan_shape_t *shape, algo_grid_kind_t kind,
                               algo_grid_t **grid);
void algo_grid_free(algo_grid_t *grid);

/* The same ranks with the dimensions rotated, so that the last `turn` ones come first, and if
 * `reversed`, each dimension in the opposite direction. Owned by the caller: algo_grid_free.
 * COLL_ERROR_MEMORY. */
coll_status_t algo_grid_turn(const algo_grid_t *grid, int32_t turn, bool reversed,
                             algo_grid_t **turned);

static inline bool algo_grid_is_extra(const algo_grid_t *grid, int32_t rank) {
  return grid->ranks[grid->position[rank]] != rank;
}

/* Positions between neighbours along a dimension: the product of the extents after it. */
int32_t algo_grid_stride(const algo_grid_t *grid, int32_t dim);

/* The coordinate of a position along a dimension. */
int32_t algo_grid_coordinate(const algo_grid_t *grid, int32_t position, int32_t dim);

#endif
