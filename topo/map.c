/* Each map lists the ranks in the order of the places that hosts have. */
#include "topo/map.h"

#include <stdbool.h>
#include <stdlib.h>

#include "base/alloc.h"

const char *const topo_map_words[TOPO_MAP_COUNT + 1] = {
    [TOPO_MAP_BY_HOST] = "by-host", [TOPO_MAP_BY_RAIL] = "by-rail", [TOPO_MAP_GRID] = "grid"};

static void map_by_rail(int32_t hosts, const int32_t count_of[], int32_t size, int32_t rank_at[]) {
  int32_t rank = 0;
  for (int32_t place = 0; rank < size; place++) {
    int32_t first = 0;
    for (int32_t host = 0; host < hosts; first += count_of[host++]) {
      if (place < count_of[host]) rank_at[first + place] = rank++;
    }
  }
}

/* ---- grid -----------------------------------------------------------------------------------*/

typedef struct grid {
  int32_t rows, columns;
  int32_t *host_at; /* [rows * columns]: the host of each place */
} grid_t;

void topo_map_extents(int32_t size, int32_t *rows, int32_t *columns) {
  *columns = 1;
  for (int32_t i = 2; i <= size / i; i++) {
    if (size % i == 0) *columns = i;
  }
  *rows = size / *columns;
}

/* The ranks down the first strip of columns, up the second, and so on. */
static void walk(const grid_t *grid, int32_t width, int32_t rank_at[]) {
  int32_t place = 0;
  for (int32_t first = 0; first < grid->columns; first += width) {
    int32_t end = first + width < grid->columns ? first + width : grid->columns;
    bool up = first / width % 2 == 1;
    for (int32_t i = 0; i < grid->rows; i++) {
      int32_t row = up ? grid->rows - 1 - i : i;
      for (int32_t column = first; column < end; column++) {
        rank_at[place++] = row * grid->columns + column;
      }
    }
  }
}

/* Neighbours on different hosts. host_of[size]: by rank */
static int32_t count_cut(const grid_t *grid, const int32_t host_of[]) {
  int32_t size = grid->rows * grid->columns, cut = 0;
  for (int32_t rank = 0; rank < size; rank++) {
    if (rank + grid->columns < size) cut += host_of[rank] != host_of[rank + grid->columns];
    if ((rank + 1) % grid->columns != 0) cut += host_of[rank] != host_of[rank + 1];
  }
  return cut;
}

/* Of several such widths, the largest: hosts of one rank each are in the order of the ranks. */
static int32_t best_width(const grid_t *grid, int32_t rank_at[], int32_t host_of[]) {
  int32_t best = grid->columns, fewest = INT32_MAX;
  for (int32_t width = grid->columns; width >= 1; width--) {
    walk(grid, width, rank_at);
    for (int32_t place = 0; place < grid->rows * grid->columns; place++) {
      host_of[rank_at[place]] = grid->host_at[place];
    }
    int32_t cut = count_cut(grid, host_of);
    if (cut >= fewest) continue;
    fewest = cut;
    best = width;
  }
  return best;
}

static int compare(const void *left, const void *right) {
  int32_t a = *(const int32_t *)left, b = *(const int32_t *)right;
  return (a > b) - (a < b);
}

static coll_status_t map_grid(int32_t hosts, const int32_t count_of[], int32_t size,
                              int32_t rank_at[]) {
  grid_t grid;
  int32_t *host_of;
  COLL_TRY(base_alloc(2 * (size_t)size, sizeof *host_of, "a map of ranks", (void **)&host_of));
  grid.host_at = host_of + size;
  for (int32_t host = 0, place = 0; host < hosts; host++) {
    for (int32_t i = 0; i < count_of[host]; i++) grid.host_at[place++] = host;
  }
  topo_map_extents(size, &grid.rows, &grid.columns);
  walk(&grid, best_width(&grid, rank_at, host_of), rank_at);
  for (int32_t host = 0, first = 0; host < hosts; first += count_of[host++]) {
    qsort(rank_at + first, (size_t)count_of[host], sizeof *rank_at, compare);
  }
  free(host_of);
  return COLL_OK;
}

coll_status_t topo_map_ranks(topo_map_t map, int32_t hosts, const int32_t count_of[], int32_t size,
                             int32_t rank_at[]) {
  if (map == TOPO_MAP_GRID) return map_grid(hosts, count_of, size, rank_at);
  if (map == TOPO_MAP_BY_RAIL) {
    map_by_rail(hosts, count_of, size, rank_at);
  } else {
    for (int32_t rank = 0; rank < size; rank++) rank_at[rank] = rank;
  }
  return COLL_OK;
}
