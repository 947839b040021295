/* Creates layouts and adds to them. */
#include "topo/layout.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "topo/fabric.h"
#include "topo/rings.h"

coll_status_t topo_layout_create(int32_t size, topo_layout_t **layout) {
  *layout = NULL;
  COLL_TRY(base_alloc(1, sizeof **layout, "a layout", (void **)layout));
  (*layout)->size = size;
  coll_status_t status =
      base_alloc((size_t)size, sizeof(int32_t), "a layout", (void **)&(*layout)->domain_of);
  if (status == COLL_OK) return COLL_OK;
  topo_layout_free(*layout);
  *layout = NULL;
  return status;
}

void topo_layout_free(topo_layout_t *layout) {
  if (layout == NULL) return;
  for (int32_t i = 0; i < layout->levels; i++) free(layout->level[i].group_of);
  free(layout->domain_of);
  topo_fabric_free(layout->fabric);
  topo_rings_free(layout->rings);
  free(layout);
}

/* Numbers the groups of `given` in order of their lowest rank. */
static coll_status_t number_groups(int32_t size, const int32_t given[], int32_t numbered[],
                                   int32_t *groups) {
  int32_t *number; /* of each given group, plus 1 */
  COLL_TRY(base_alloc((size_t)size, sizeof *number, "a layout", (void **)&number));
  *groups = 0;
  for (int32_t rank = 0; rank < size; rank++) {
    int32_t *group = &number[given[rank]];
    if (*group == 0) *group = ++*groups;
    numbered[rank] = *group - 1;
  }
  free(number);
  return COLL_OK;
}

/* The first rank whose group spans two groups of the level above, or size. */
static coll_status_t find_spanning(const topo_level_t *above, int32_t size,
                                   const int32_t group_of[], int32_t *spanning) {
  int32_t *outer; /* of each group: the group above of its first rank, plus 1 */
  COLL_TRY(base_alloc((size_t)size, sizeof *outer, "a layout", (void **)&outer));
  int32_t rank = 0;
  for (; rank < size; rank++) {
    int32_t *known = &outer[group_of[rank]];
    if (*known != 0 && *known != above->group_of[rank] + 1) break;
    *known = above->group_of[rank] + 1;
  }
  *spanning = rank;
  free(outer);
  return COLL_OK;
}

coll_status_t topo_layout_add_level(topo_layout_t *layout, topo_kind_t kind,
                                    const int32_t group_of[]) {
  if (layout->levels == TOPO_LEVELS_MAX) {
    return base_fail(COLL_ERROR_INVALID, "a layout has at most %d levels", TOPO_LEVELS_MAX);
  }
  int32_t spanning = layout->size;
  if (layout->levels > 0) {
    COLL_TRY(find_spanning(&layout->level[layout->levels - 1], layout->size, group_of, &spanning));
  }
  if (spanning < layout->size) {
    return base_fail(COLL_ERROR_INVALID, "the %s of rank %d lies in two groups of the level above",
                     topo_kind_name(kind), spanning);
  }
  topo_level_t level = {.kind = kind};
  COLL_TRY(base_alloc((size_t)layout->size, sizeof(int32_t), "a layout", (void **)&level.group_of));
  coll_status_t status = number_groups(layout->size, group_of, level.group_of, &level.groups);
  if (status != COLL_OK) {
    free(level.group_of);
    return status;
  }
  layout->level[layout->levels++] = level;
  return COLL_OK;
}

coll_status_t topo_layout_set_grid(topo_layout_t *layout, int32_t dims, const int32_t extents[],
                                   bool wraps) {
  int64_t ranks = 1;
  for (int32_t i = 0; i < dims; i++)
    ranks *= extents[i] > 0 && ranks <= layout->size ? extents[i] : 0;
  if (dims < 1 || dims > TOPO_GRID_DIMS_MAX || ranks != layout->size) {
    return base_fail(COLL_ERROR_INVALID, "the extents of the grid do not multiply to %d ranks",
                     layout->size);
  }
  layout->dims = dims;
  memcpy(layout->extents, extents, (size_t)dims * sizeof *extents);
  layout->wraps = wraps;
  return COLL_OK;
}

coll_status_t topo_layout_set_domains(topo_layout_t *layout, const int32_t domain_of[]) {
  int32_t domains;
  return number_groups(layout->size, domain_of, layout->domain_of, &domains);
}

bool topo_layout_is_mapped(const topo_layout_t *layout) {
  for (int32_t rank = 1; layout != NULL && rank < layout->size; rank++) {
    if (layout->domain_of[rank] != layout->domain_of[0]) return false;
  }
  return true;
}
