/* The layout of some of the ranks, and a digest by which ranks compare their layouts. */
#include <stdlib.h>

#include "base/alloc.h"
#include "base/digest.h"
#include "topo/fabric.h"
#include "topo/layout.h"
#include "topo/rings.h"

/* ---- some of the ranks ----------------------------------------------------------------------*/

static bool are_all_in_order(const topo_layout_t *layout, const int32_t ranks[], int32_t count) {
  bool same = count == layout->size;
  for (int32_t i = 0; i < count && same; i++) same = ranks[i] == i;
  return same;
}

/* Group numbers of a part need not be smaller than its size, which topo_layout_add_level wants. */
static void number_part(const int32_t group_of[], const int32_t ranks[], int32_t count,
                        int32_t part[]) {
  for (int32_t i = 0; i < count; i++) {
    part[i] = i;
    for (int32_t before = 0; before < i; before++) {
      if (group_of[ranks[before]] != group_of[ranks[i]]) continue;
      part[i] = part[before];
      break;
    }
  }
}

static coll_status_t add_parts(const topo_layout_t *layout, const int32_t ranks[], int32_t count,
                               int32_t group_of[], topo_layout_t *part) {
  for (int32_t i = 0; i < layout->levels; i++) {
    number_part(layout->level[i].group_of, ranks, count, group_of);
    COLL_TRY(topo_layout_add_level(part, layout->level[i].kind, group_of));
  }
  number_part(layout->domain_of, ranks, count, group_of);
  COLL_TRY(topo_layout_set_domains(part, group_of));
  COLL_TRY(topo_fabric_select(layout->fabric, ranks, count, &part->fabric));
  if (!are_all_in_order(layout, ranks, count)) return COLL_OK;
  COLL_TRY(topo_rings_copy(layout->rings, &part->rings));
  if (layout->dims == 0) return COLL_OK;
  return topo_layout_set_grid(part, layout->dims, layout->extents, layout->wraps);
}

coll_status_t topo_layout_select(const topo_layout_t *layout, const int32_t ranks[], int32_t count,
                                 topo_layout_t **part) {
  int32_t *group_of;
  *part = NULL;
  if (layout == NULL) return COLL_OK;
  COLL_TRY(base_alloc((size_t)count, sizeof *group_of, "a layout", (void **)&group_of));
  coll_status_t status = topo_layout_create(count, part);
  if (status == COLL_OK) status = add_parts(layout, ranks, count, group_of, *part);
  free(group_of);
  if (status == COLL_OK) return COLL_OK;
  topo_layout_free(*part);
  *part = NULL;
  return status;
}

/* ---- digest ---------------------------------------------------------------------------------*/

uint64_t topo_layout_digest(const topo_layout_t *layout) {
  uint64_t digest = BASE_DIGEST_START;
  if (layout == NULL) return 0;
  digest = base_digest_fold(digest, (uint64_t)layout->size);
  for (int32_t i = 0; i < layout->levels; i++) {
    digest = base_digest_fold(digest, (uint64_t)layout->level[i].kind);
    for (int32_t rank = 0; rank < layout->size; rank++) {
      digest = base_digest_fold(digest, (uint64_t)layout->level[i].group_of[rank]);
    }
  }
  for (int32_t rank = 0; rank < layout->size; rank++) {
    digest = base_digest_fold(digest, (uint64_t)layout->domain_of[rank]);
  }
  for (int32_t d = 0; d < layout->dims; d++)
    digest = base_digest_fold(digest, (uint64_t)layout->extents[d]);
  digest = base_digest_fold(digest, layout->wraps);
  digest = base_digest_fold(digest, topo_fabric_digest(layout->fabric));
  digest = base_digest_fold(digest, topo_rings_digest(layout->rings));
  return digest != 0 ? digest : 1;
}
