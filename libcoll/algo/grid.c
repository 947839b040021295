/*
 * From the layout's levels or grid, or from the number of ranks alone, to extents and positions.
 */
#include "algo/grid.h"

#include <stdlib.h>

#include "base/alloc.h"

int32_t algo_grid_stride(const algo_grid_t *grid, int32_t dim) {
  int32_t stride = 1;
  for (int32_t d = dim + 1; d < grid->dims; d++) stride *= grid->extents[d];
  return stride;
}

int32_t algo_grid_coordinate(const algo_grid_t *grid, int32_t position, int32_t dim) {
  return position / algo_grid_stride(grid, dim) % grid->extents[dim];
}

/* ---- extents --------------------------------------------------------------------------------*/

/* The largest divisor of `size` that is not larger than its k-th root. */
static int32_t divisor_below_root(int32_t size, int32_t k) {
  int32_t largest = 1;
  for (int32_t d = 2; d < size; d++) {
    int64_t power = 1;
    for (int32_t i = 0; i < k; i++) power *= d;
    if (power > size) break;
    if (size % d == 0) largest = d;
  }
  return largest;
}

static void set_extents_by_size(algo_grid_t *grid, int32_t dims) {
  int32_t rest = grid->size;
  grid->dims = dims;
  for (int32_t d = 0; d < dims; d++) {
    grid->extents[d] = d == dims - 1 ? rest : divisor_below_root(rest, dims - d);
    rest /= grid->extents[d];
  }
}

/* Extents of 1 are no dimensions. */
static void drop_ones(algo_grid_t *grid) {
  int32_t kept = 0;
  for (int32_t d = 0; d < grid->dims; d++) {
    if (grid->extents[d] > 1) grid->extents[kept++] = grid->extents[d];
  }
  if (kept == 0) grid->extents[kept++] = 1;
  grid->dims = kept;
}

/* Joins the outermost dimensions until there are `dims`. */
static void join_dims(algo_grid_t *grid, int32_t dims) {
  while (grid->dims > dims) {
    grid->extents[0] *= grid->extents[1];
    grid->dims--;
    for (int32_t d = 1; d < grid->dims; d++) grid->extents[d] = grid->extents[d + 1];
  }
}

static void count_members(algo_grid_t *grid) {
  grid->members = 1;
  for (int32_t d = 0; d < grid->dims; d++) grid->members *= grid->extents[d];
}

/* ---- levels ---------------------------------------------------------------------------------*/

/* The ranks sorted by their groups, level by level, and then by number. */
static void sort_ranks(const topo_layout_t *layout, int32_t *sorted) {
  int32_t size = layout->size;
  for (int32_t i = 0; i < size; i++) {
    int32_t rank = i, at = i;
    for (; at > 0; at--) {
      int32_t level = 0, before = sorted[at - 1];
      while (level < layout->levels &&
             layout->level[level].group_of[before] == layout->level[level].group_of[rank]) {
        level++;
      }
      if (level == layout->levels ||
          layout->level[level].group_of[before] < layout->level[level].group_of[rank]) {
        break;
      }
      sorted[at] = before;
    }
    sorted[at] = rank;
  }
}

/* The length of the run of ranks of one group of `level` that starts at sorted[first]. */
static int32_t run_length(const topo_level_t *level, const int32_t *sorted, int32_t size,
                          int32_t first) {
  int32_t end = first + 1;
  while (end < size && level->group_of[sorted[end]] == level->group_of[sorted[first]]) end++;
  return end - first;
}

/* The shortest and longest run of the level. */
static void run_lengths(const topo_level_t *level, const int32_t *sorted, int32_t size,
                        int32_t *shortest, int32_t *longest) {
  *shortest = size;
  *longest = 0;
  for (int32_t first = 0; first < size;) {
    int32_t length = run_length(level, sorted, size, first);
    if (length < *shortest) *shortest = length;
    if (length > *longest) *longest = length;
    first += length;
  }
}

/* Hosts as rows of equal lengths. The ranks that do not fit are owned by those of their host. */
static void place_uneven(algo_grid_t *grid, const topo_level_t *hosts, const int32_t *sorted,
                         int32_t row) {
  grid->dims = 2;
  grid->extents[0] = hosts->groups;
  grid->extents[1] = row;
  int32_t host = 0;
  for (int32_t first = 0; first < grid->size; host++) {
    int32_t length = run_length(hosts, sorted, grid->size, first);
    for (int32_t i = 0; i < length; i++) {
      int32_t rank = sorted[first + i];
      grid->position[rank] = host * row + i % row;
      if (i < row) grid->ranks[host * row + i] = rank;
    }
    first += length;
  }
  drop_ones(grid);
  count_members(grid);
}

static void place_sorted(algo_grid_t *grid, const int32_t *sorted) {
  drop_ones(grid);
  count_members(grid);
  for (int32_t i = 0; i < grid->size; i++) {
    grid->ranks[i] = sorted[i];
    grid->position[sorted[i]] = i;
  }
}

/* Extents from the levels, if all groups of a level have equally many ranks. */
static void place_levels(algo_grid_t *grid, const topo_layout_t *layout, const int32_t *sorted) {
  int32_t shortest, longest, outer = grid->size;
  for (int32_t i = 0; i < layout->levels; i++) {
    run_lengths(&layout->level[i], sorted, grid->size, &shortest, &longest);
    if (shortest != longest) {
      run_lengths(&layout->level[0], sorted, grid->size, &shortest, &longest);
      place_uneven(grid, &layout->level[0], sorted, shortest);
      return;
    }
    grid->extents[i] = outer / shortest;
    outer = shortest;
  }
  grid->extents[layout->levels] = outer;
  grid->dims = layout->levels + 1;
  place_sorted(grid, sorted);
}

/* Without levels: groups of consecutive ranks, about as many as a group has ranks. */
static coll_status_t place_by_size(algo_grid_t *grid, int32_t *sorted) {
  int32_t row = 1;
  topo_level_t groups;
  while (row * row < grid->size) row++;
  COLL_TRY(
      base_alloc((size_t)grid->size, sizeof *groups.group_of, "a grid", (void **)&groups.group_of));
  groups.groups = (grid->size + row - 1) / row;
  for (int32_t rank = 0; rank < grid->size; rank++) {
    groups.group_of[rank] = rank / row;
    sorted[rank] = rank;
  }
  int32_t shortest, longest;
  run_lengths(&groups, sorted, grid->size, &shortest, &longest);
  if (shortest == longest) {
    grid->dims = 2;
    grid->extents[0] = groups.groups;
    grid->extents[1] = row;
    place_sorted(grid, sorted);
  } else {
    place_uneven(grid, &groups, sorted, shortest);
  }
  free(groups.group_of);
  return COLL_OK;
}

/* ---- grids ----------------------------------------------------------------------------------*/

static coll_status_t place_grid(algo_grid_t *grid, const topo_layout_t *layout, int32_t dims,
                                int32_t *sorted) {
  if (layout != NULL && layout->dims == 0 && layout->levels > 0) {
    place_levels(grid, layout, sorted);
    if (grid->members == grid->size && grid->dims >= dims) {
      join_dims(grid, dims);
      return COLL_OK;
    }
  }
  for (int32_t rank = 0; rank < grid->size; rank++) sorted[rank] = rank;
  if (layout != NULL && layout->dims >= dims) {
    grid->dims = layout->dims;
    for (int32_t d = 0; d < grid->dims; d++) grid->extents[d] = layout->extents[d];
    join_dims(grid, dims);
  } else if (layout != NULL && layout->dims > 0) {
    grid->dims = layout->dims;
    for (int32_t d = 0; d < grid->dims; d++) grid->extents[d] = layout->extents[d];
  } else {
    set_extents_by_size(grid, dims);
  }
  place_sorted(grid, sorted);
  return COLL_OK;
}

static coll_status_t place(algo_grid_t *grid, const topo_layout_t *layout, algo_grid_kind_t kind,
                           int32_t *sorted) {
  if (layout != NULL) sort_ranks(layout, sorted);
  if (kind != ALGO_GRID_NESTED) {
    return place_grid(grid, layout, kind == ALGO_GRID_2D ? 2 : 3, sorted);
  }
  if (layout == NULL || layout->levels == 0) return place_by_size(grid, sorted);
  place_levels(grid, layout, sorted);
  return COLL_OK;
}

/* A grid without dimensions. Owned by the caller. */
static coll_status_t grid_alloc(int32_t ranks, algo_grid_t **grid) {
  algo_grid_t *made;
  size_t size = (size_t)ranks;
  COLL_TRY(base_alloc(1, sizeof *made, "a grid", (void **)&made));
  made->size = ranks;
  coll_status_t status = base_alloc(size, sizeof *made->ranks, "a grid", (void **)&made->ranks);
  if (status == COLL_OK) {
    status = base_alloc(size, sizeof *made->position, "a grid", (void **)&made->position);
  }
  if (status != COLL_OK) {
    algo_grid_free(made);
    return status;
  }
  *grid = made;
  return COLL_OK;
}

static void find_order(algo_grid_t *grid) {
  grid->is_ordered = grid->members == grid->size;
  for (int32_t i = 0; i < grid->members; i++) grid->is_ordered &= grid->ranks[i] == i;
}

coll_status_t algo_grid_create(const plan_shape_t *shape, algo_grid_kind_t kind,
                               algo_grid_t **grid) {
  algo_grid_t *made;
  int32_t *sorted;
  COLL_TRY(grid_alloc(shape->size, &made));
  coll_status_t status =
      base_alloc((size_t)shape->size, sizeof *sorted, "a grid", (void **)&sorted);
  if (status == COLL_OK) {
    status = place(made, shape->layout, kind, sorted);
    free(sorted);
  }
  if (status != COLL_OK) {
    algo_grid_free(made);
    return status;
  }
  find_order(made);
  *grid = made;
  return COLL_OK;
}

/* The position in the turned grid of a position in the grid. */
static int32_t turn_position(const algo_grid_t *grid, const algo_grid_t *turned, int32_t turn,
                             bool reversed, int32_t position) {
  int32_t at = 0;
  for (int32_t d = 0; d < turned->dims; d++) {
    int32_t extent = turned->extents[d];
    int32_t from = (d + turned->dims - turn) % turned->dims;
    int32_t coordinate = algo_grid_coordinate(grid, position, from);
    at = at * extent + (reversed ? extent - 1 - coordinate : coordinate);
  }
  return at;
}

coll_status_t algo_grid_turn(const algo_grid_t *grid, int32_t turn, bool reversed,
                             algo_grid_t **turned) {
  algo_grid_t *made;
  COLL_TRY(grid_alloc(grid->size, &made));
  made->dims = grid->dims;
  made->members = grid->members;
  for (int32_t d = 0; d < grid->dims; d++) {
    made->extents[(d + turn) % grid->dims] = grid->extents[d];
  }
  for (int32_t i = 0; i < grid->members; i++) {
    made->ranks[turn_position(grid, made, turn, reversed, i)] = grid->ranks[i];
  }
  for (int32_t rank = 0; rank < grid->size; rank++) {
    made->position[rank] = turn_position(grid, made, turn, reversed, grid->position[rank]);
  }
  find_order(made);
  *turned = made;
  return COLL_OK;
}

void algo_grid_free(algo_grid_t *grid) {
  if (grid == NULL) return;
  free(grid->ranks);
  free(grid->position);
  free(grid);
}
