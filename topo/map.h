/*
 * In which order the ranks of a job are given to the hosts. The number of ranks of each host does
 * not depend on it. The ranks of a host take its places in their order, so that the i-th ranks of
 * all hosts are on one rail, as algorithms over hosts assume.
 *
 *   by-host  contiguous blocks of ranks
 *   by-rail  rank r on host r modulo the hosts, as long as all have places left (Slurm's "cyclic"):
 *            consecutive ranks have the same place on different hosts, so the same rail
 *   grid     ranks are numbered row by row over a process grid whose extents are as near to each
 *            other as their product allows (MPI_Dims_create), and each host holds a compact tile of
 *            it: columns are cut into strips, hosts take runs of ranks down the first strip, up the
 *            second and so on, and strips have the width that leaves the fewest neighbours on
 *            different hosts (for equal hosts the division of Gropp, Using node information to
 *            implement MPI Cartesian topologies, 2019)
 */
#ifndef TOPO_MAP_H
#define TOPO_MAP_H

#include <stdint.h>

#include "base/status.h"

typedef enum topo_map {
  TOPO_MAP_BY_HOST,
  TOPO_MAP_BY_RAIL,
  TOPO_MAP_GRID,
  TOPO_MAP_COUNT
} topo_map_t;

/* By topo_map_t; ends with NULL. */
extern const char *const topo_map_words[];

/* count_of[hosts]: ranks of each host, >= 1, `size` in all. rank_at[size]: the rank at each place,
 * the places of the first host first. COLL_ERROR_MEMORY. */
coll_status_t topo_map_ranks(topo_map_t map, int32_t hosts, const int32_t count_of[], int32_t size,
                             int32_t rank_at[]);

/* The extents of the process grid: rows >= columns, and rows * columns == size. */
void topo_map_extents(int32_t size, int32_t *rows, int32_t *columns);

#endif
