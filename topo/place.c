/* Places host by host: GPUs by number on the host, then the cores near them. */
#include "topo/place.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "topo/fabric.h"
#include "topo/machine.h"
#include "topo/rings.h"

/* The nearest container of one of two kinds, or TOPO_NONE. */
static int32_t container(const topo_graph_t *graph, int32_t node, topo_kind_t kind,
                         topo_kind_t other) {
  while (node != TOPO_NONE && graph->nodes[node].kind != kind && graph->nodes[node].kind != other) {
    node = graph->nodes[node].parent;
  }
  return node;
}

static int32_t home_of(const topo_graph_t *graph, int32_t node) {
  return container(graph, node, TOPO_NUMA, TOPO_PACKAGE);
}

/* Nodes of a kind of one host, in order; home TOPO_NONE: anywhere in it. Returns their number. */
static int32_t collect(const topo_graph_t *graph, int32_t host, topo_kind_t kind, int32_t home,
                       int32_t found[]) {
  int32_t count = 0;
  for (size_t i = 0; i < graph->node_count; i++) {
    int32_t node = (int32_t)i;
    if (graph->nodes[i].kind != kind || topo_graph_host_of(graph, node) != host) continue;
    if (home != TOPO_NONE && home_of(graph, node) != home) continue;
    found[count++] = node;
  }
  return count;
}

/* Cores of a rank: its share among the ranks of the host whose GPU has the same home. */
static void assign_cores(const topo_graph_t *graph, topo_placement_t *placement, int32_t first,
                         int32_t count, int32_t rank, int32_t cores[]) {
  int32_t home = home_of(graph, placement->gpu_of[rank]), index = 0, sharing = 0;
  int32_t near = collect(graph, placement->host_of[rank], TOPO_CORE, home, cores);
  if (near == 0 && home != TOPO_NONE) {
    home = TOPO_NONE;
    near = collect(graph, placement->host_of[rank], TOPO_CORE, home, cores);
  }
  placement->core_of[rank] = TOPO_NONE;
  if (near == 0) return;
  for (int32_t other = first; other < first + count; other++) {
    if (home != TOPO_NONE && home_of(graph, placement->gpu_of[other]) != home) continue;
    index += other < rank;
    sharing++;
  }
  topo_share_t share = topo_share_of(near, index, sharing);
  placement->core_count[rank] = share.count;
  if (share.count > 0) placement->core_of[rank] = cores[share.first];
}

static void place_host(const topo_graph_t *graph, topo_placement_t *placement, int32_t host,
                       int32_t first, int32_t count, int32_t nodes[]) {
  int32_t gpus = collect(graph, host, TOPO_GPU, TOPO_NONE, nodes);
  for (int32_t i = 0; i < count; i++) {
    int32_t gpu = count <= gpus ? i : (int32_t)((int64_t)i * gpus / count);
    placement->host_of[first + i] = host;
    placement->gpu_of[first + i] = gpus > 0 ? nodes[gpu] : TOPO_NONE;
  }
  for (int32_t i = 0; i < count; i++) {
    assign_cores(graph, placement, first, count, first + i, nodes);
  }
}

static coll_status_t place_ranks(const topo_graph_t *graph, int32_t ranks,
                                 topo_placement_t *placement) {
  int32_t *nodes, hosts = (int32_t)topo_graph_count(graph, TOPO_HOST), used = 0, first = 0;
  if (hosts == 0)
    return base_fail(COLL_ERROR_INVALID, "the topology has no host to place ranks on");
  COLL_TRY(base_alloc(graph->node_count, sizeof *nodes, "a placement", (void **)&nodes));
  for (size_t i = 0; i < graph->node_count && first < ranks; i++) {
    if (graph->nodes[i].kind != TOPO_HOST) continue;
    int32_t count = ranks / hosts + (used < ranks % hosts);
    place_host(graph, placement, (int32_t)i, first, count, nodes);
    first += count;
    used++;
  }
  free(nodes);
  return COLL_OK;
}

/* ---- the order of ranks ---------------------------------------------------------------------
 * Until here ranks are places: the first host has the first of them. */

static void permute(int32_t values[], const int32_t rank_at[], int32_t size, int32_t scratch[]) {
  for (int32_t place = 0; place < size; place++) scratch[rank_at[place]] = values[place];
  memcpy(values, scratch, (size_t)size * sizeof *values);
}

/* scratch[3][ranks] */
static coll_status_t order_ranks(topo_placement_t *placement, topo_map_t map, int32_t scratch[]) {
  int32_t size = placement->layout->size, hosts = 0;
  int32_t *count_of = scratch, *rank_at = scratch + size;
  for (int32_t place = 0; place < size; place++) {
    bool begins = place == 0 || placement->host_of[place] != placement->host_of[place - 1];
    hosts += begins;
    count_of[hosts - 1] = begins ? 1 : count_of[hosts - 1] + 1;
  }
  COLL_TRY(topo_map_ranks(map, hosts, count_of, size, rank_at));
  permute(placement->host_of, rank_at, size, rank_at + size);
  permute(placement->gpu_of, rank_at, size, rank_at + size);
  permute(placement->core_of, rank_at, size, rank_at + size);
  permute(placement->core_count, rank_at, size, rank_at + size);
  return COLL_OK;
}

/* ---- layout ---------------------------------------------------------------------------------*/

/* Group of each rank: the lowest rank with the same container. */
static coll_status_t group_by(const topo_graph_t *graph, const topo_placement_t *placement,
                              topo_kind_t kind, int32_t group_of[], int32_t *groups) {
  int32_t *lowest; /* of each node: its lowest rank + 1 */
  int32_t size = placement->layout->size;
  COLL_TRY(base_alloc(graph->node_count, sizeof *lowest, "a layout", (void **)&lowest));
  *groups = 0;
  for (int32_t rank = 0; rank < size; rank++) {
    int32_t gpu = placement->gpu_of[rank];
    int32_t leaf = gpu != TOPO_NONE ? gpu : placement->core_of[rank];
    int32_t node = kind == TOPO_HOST ? TOPO_NONE : container(graph, leaf, kind, kind);
    if (node == TOPO_NONE) node = placement->host_of[rank];
    if (lowest[node] == 0) {
      lowest[node] = rank + 1;
      ++*groups;
    }
    group_of[rank] = lowest[node] - 1;
  }
  free(lowest);
  return COLL_OK;
}

static coll_status_t add_levels(const topo_graph_t *graph, topo_placement_t *placement,
                                int32_t group_of[]) {
  static const topo_kind_t kinds[] = {TOPO_HOST, TOPO_PACKAGE, TOPO_NUMA};
  topo_layout_t *layout = placement->layout;
  int32_t above = 1;
  for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
    int32_t groups;
    COLL_TRY(group_by(graph, placement, kinds[i], group_of, &groups));
    if (kinds[i] == TOPO_HOST) COLL_TRY(topo_layout_set_domains(layout, group_of));
    if (groups <= above || (kinds[i] != TOPO_HOST && groups == layout->size)) continue;
    COLL_TRY(topo_layout_add_level(layout, kinds[i], group_of));
    above = groups;
  }
  const topo_grid_t *grid = &graph->grid;
  if (grid->dims == 0 || (size_t)layout->size != topo_graph_count(graph, TOPO_HOST)) return COLL_OK;
  return topo_layout_set_grid(layout, grid->dims, grid->extents, grid->wraps);
}

coll_status_t topo_place_mapped(const topo_graph_t *graph, int32_t ranks, topo_map_t map,
                                topo_placement_t *placement) {
  int32_t *scratch = NULL;
  size_t size = (size_t)ranks;
  memset(placement, 0, sizeof *placement);
  if (ranks < 1)
    return base_fail(COLL_ERROR_INVALID, "cannot place %d ranks; give 1 or more", ranks);
  coll_status_t status = topo_layout_create(ranks, &placement->layout);
  int32_t **arrays[] = {&placement->host_of, &placement->gpu_of, &placement->core_of,
                        &placement->core_count};
  for (size_t i = 0; status == COLL_OK && i < sizeof arrays / sizeof arrays[0]; i++) {
    status = base_alloc(size, sizeof(int32_t), "a placement", (void **)arrays[i]);
  }
  if (status == COLL_OK) {
    status = base_alloc(3 * size, sizeof *scratch, "a placement", (void **)&scratch);
  }
  if (status == COLL_OK) status = place_ranks(graph, ranks, placement);
  if (status == COLL_OK) status = order_ranks(placement, map, scratch);
  if (status == COLL_OK) status = add_levels(graph, placement, scratch);
  free(scratch);
  if (status != COLL_OK) topo_placement_free(placement);
  return status;
}

coll_status_t topo_place(const topo_graph_t *graph, int32_t ranks, topo_placement_t *placement) {
  return topo_place_mapped(graph, ranks, TOPO_MAP_BY_HOST, placement);
}

static bool has_links(const topo_graph_t *graph, int32_t node) {
  for (size_t i = 0; i < graph->link_count; i++) {
    if (graph->links[i].a == node || graph->links[i].b == node) return true;
  }
  return false;
}

int32_t topo_placement_node(const topo_placement_t *placement, const topo_graph_t *graph,
                            int32_t rank) {
  int32_t gpu = placement->gpu_of[rank], core = placement->core_of[rank];
  int32_t node = gpu != TOPO_NONE ? gpu : core;
  while (node != TOPO_NONE && !has_links(graph, node)) node = graph->nodes[node].parent;
  return node != TOPO_NONE ? node : placement->host_of[rank];
}

coll_status_t topo_placement_add_fabric(topo_placement_t *placement, topo_graph_t *graph) {
  topo_layout_t *layout = placement->layout;
  int32_t *node_of = NULL;
  topo_fabric_t *fabric;
  bool connected = false;
  coll_status_t status = COLL_OK;
  if (placement->gpu_of[0] != TOPO_NONE || !topo_layout_is_mapped(layout)) {
    status = base_alloc((size_t)layout->size, sizeof *node_of, "a placement", (void **)&node_of);
  }
  if (node_of == NULL) {
    topo_graph_free(graph);
    return status;
  }
  for (int32_t rank = 0; rank < layout->size; rank++) {
    node_of[rank] = topo_placement_node(placement, graph, rank);
  }
  status = topo_fabric_create(graph, layout->size, node_of, &fabric);
  free(node_of);
  COLL_TRY(status);
  status = topo_fabric_is_connected(fabric, &connected);
  if (status == COLL_OK && connected) {
    layout->fabric = fabric;
    status = topo_rings_find(fabric, layout->size, &layout->rings);
  } else {
    topo_fabric_free(fabric);
  }
  return status;
}

void topo_placement_free(topo_placement_t *placement) {
  topo_layout_free(placement->layout);
  free(placement->host_of);
  free(placement->gpu_of);
  free(placement->core_of);
  free(placement->core_count);
  memset(placement, 0, sizeof *placement);
}
