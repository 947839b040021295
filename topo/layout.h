/*
 * A layout: where the ranks of a communicator are, as plain data that all ranks agree on. It is
 * derived from a graph (topo/graph.h), carried by a plan's shape, and all that a builder knows of
 * the machine.
 *
 * Groups are nested: level 0 are the hosts, or what the outermost level of the machine is, and each
 * group of a deeper level lies in one group of the level above. Groups may differ in size.
 * A mapping domain is a set of ranks that can load and store each other's memory: all ranks of a
 * host, fewer where containers divide it, or ranks of several hosts.
 */
#ifndef TOPO_LAYOUT_H
#define TOPO_LAYOUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/status.h"
#include "topo/graph.h"

#define TOPO_LEVELS_MAX 4

typedef struct topo_level {
  topo_kind_t kind;  /* what a group is: HOST, PACKAGE, NUMA, ... */
  int32_t groups;    /* number of groups, >= 1 */
  int32_t *group_of; /* [size]: the group of a rank; groups are numbered by their lowest rank */
} topo_level_t;

typedef struct topo_layout {
  int32_t size;   /* ranks, >= 1 */
  int32_t levels; /* 0: all ranks are in one group */
  topo_level_t level[TOPO_LEVELS_MAX];
  int32_t *domain_of; /* [size]: mapping domain of host memory, numbered by its lowest rank */
  int32_t dims;       /* of the grid of ranks; 0: none */
  int32_t extents[TOPO_GRID_DIMS_MAX]; /* their product is size; rank r has the r-th coordinates in
                                          row-major order, the last dimension fastest */
  bool wraps;                          /* torus; false: mesh, no link from last to first */
  struct topo_fabric *fabric;          /* the links between ranks (topo/fabric.h), owned; NULL:
                                          nothing is known of them */
  struct topo_rings *rings;            /* over disjoint paths (topo/rings.h), owned; NULL: none are
                                          known to be faster than the ranks in order */
} topo_layout_t;

/* Creates a layout without levels and grid, one mapping domain. Owned by the caller until
 * topo_layout_free. COLL_ERROR_MEMORY. */
coll_status_t topo_layout_create(int32_t size, topo_layout_t **layout);
void topo_layout_free(topo_layout_t *layout);

/* Adds a level below the others; group_of[size] may number groups in any way with numbers from 0 to
 * size - 1. COLL_ERROR_INVALID if a group does not lie in one group of the level above, or if there
 * are TOPO_LEVELS_MAX levels. */
coll_status_t topo_layout_add_level(topo_layout_t *layout, topo_kind_t kind,
                                    const int32_t group_of[]);

/* COLL_ERROR_INVALID if the extents do not multiply to the number of ranks. */
coll_status_t topo_layout_set_grid(topo_layout_t *layout, int32_t dims, const int32_t extents[],
                                   bool wraps);

/* domain_of[size] as group_of in topo_layout_add_level. */
coll_status_t topo_layout_set_domains(topo_layout_t *layout, const int32_t domain_of[]);

/* Whether two ranks can load and store each other's memory. Without a layout (NULL) all can. */
static inline bool topo_layout_shares_memory(const topo_layout_t *layout, int32_t a, int32_t b) {
  return layout == NULL || layout->domain_of[a] == layout->domain_of[b];
}

/* Whether all ranks can. */
bool topo_layout_is_mapped(const topo_layout_t *layout);

/* Reads a short description, as tests and tools give it:
 *   "hosts:3+5"          hosts of 3 and 5 ranks
 *   "hosts:4x2"          four hosts of two ranks
 *   "hosts:2x4/numa:2"   the same, each host two NUMA nodes of equally many ranks (the first ones
 *                        take the remainder)
 *   "grid:4x4"  "grid:2x3x4"  "mesh:3x5"    every rank its own host
 * COLL_ERROR_INVALID names the wrong part. The description must be of `size` ranks. */
coll_status_t topo_layout_parse(const char *text, int32_t size, topo_layout_t **layout);

/* *part: the layout of count >= 1 of the ranks, in that order, as ranks 0 to count - 1. A grid
 * and rings are kept only if these are all ranks in their order. NULL of NULL. Owned by the caller.
 */
coll_status_t topo_layout_select(const topo_layout_t *layout, const int32_t ranks[], int32_t count,
                                 topo_layout_t **part);

/* Differs, but for chance, if the layouts do. 0 for NULL only. */
uint64_t topo_layout_digest(const topo_layout_t *layout);

/* A table with a row for each rank: its group of each level, its mapping domain, its coordinates.
 */
void topo_layout_print(const topo_layout_t *layout, FILE *out);

#endif
