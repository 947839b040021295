/* The inside of a host. Devices are in columns by the package that they are near to. */
#include <stdlib.h>

#include "base/alloc.h"
#include "tools/draw/scene.h"

enum { PAD = 8, ROWS_MAX = 16 };

int32_t scene_pci_depth(const topo_graph_t *graph, int32_t node) {
  int32_t depth = 0;
  for (; node != TOPO_NONE; node = graph->nodes[node].parent) {
    depth += graph->nodes[node].kind == TOPO_PCI_SWITCH;
  }
  return depth;
}

/* The package that contains the node, or its NUMA node where there are no packages, or its host. */
static int32_t home_of(const topo_graph_t *graph, int32_t node) {
  int32_t home = node;
  for (; node != TOPO_NONE; node = graph->nodes[node].parent) {
    topo_kind_t kind = graph->nodes[node].kind;
    if (kind == TOPO_PACKAGE) return node;
    if (kind == TOPO_NUMA || kind == TOPO_HOST) {
      bool is_better = graph->nodes[home].kind != TOPO_NUMA;
      if (is_better) home = node;
    }
  }
  return home;
}

static bool links_gpus(const topo_graph_t *graph) {
  for (size_t i = 0; i < graph->link_count; i++) {
    const topo_link_t *link = &graph->links[i];
    if (graph->nodes[link->a].kind == TOPO_GPU && graph->nodes[link->b].kind == TOPO_GPU) {
      return true;
    }
  }
  return false;
}

scene_rows_t scene_rows_of(const topo_graph_t *graph, double column) {
  scene_rows_t rows = {.title = PAD};
  bool has_switch = false, has_gpu = topo_graph_count(graph, TOPO_GPU) > 0;
  double gap = column < 30 ? 16 : 24, y = PAD + 14;
  for (size_t i = 0; i < graph->node_count; i++) {
    const topo_node_t *node = &graph->nodes[i];
    int32_t depth = scene_pci_depth(graph, (int32_t)i);
    if (node->kind == TOPO_NVSWITCH && node->parent != TOPO_NONE) has_switch = true;
    if (depth > rows.pci_depth) rows.pci_depth = depth;
  }
  if (rows.pci_depth > ROWS_MAX) rows.pci_depth = ROWS_MAX;
  rows.switches = y;
  if (has_switch) y += 16 + gap;
  if (has_gpu && links_gpus(graph)) y += 20 + column * 0.6;
  y += 4; /* frames of packages */
  rows.gpus = y;
  if (has_gpu) y += 20 + gap;
  rows.pci = y;
  rows.step = 12 + gap;
  y += rows.pci_depth * rows.step;
  rows.bottom = y;
  rows.height = y + 18 + (topo_graph_count(graph, TOPO_PACKAGE) > 1 ? 20 : 12);
  return rows;
}

/* ---- rows -----------------------------------------------------------------------------------*/

/* 0: GPUs; 1 …: PCI switches, the deepest first; -1: NICs; -2: processors and NUMA nodes; -3: not
 * in a home. */
static int32_t row_of(const topo_graph_t *graph, int32_t node) {
  switch (graph->nodes[node].kind) {
    case TOPO_GPU: return 0;
    case TOPO_PCI_SWITCH: {
      int32_t depth = scene_pci_depth(graph, node);
      return depth < ROWS_MAX ? depth : ROWS_MAX;
    }
    case TOPO_NIC: return -1;
    case TOPO_PACKAGE:
    case TOPO_NUMA: return -2;
    default: return -3;
  }
}

/* Nodes of a row of a home, in order. Returns their number. */
static int32_t collect(const topo_graph_t *graph, int32_t home, int32_t row, int32_t found[]) {
  int32_t count = 0;
  for (int32_t node = 0; node < (int32_t)graph->node_count; node++) {
    if (row_of(graph, node) != row || home_of(graph, node) != home) continue;
    if (found != NULL) found[count] = node;
    count++;
  }
  return count;
}

static int32_t columns_of(const topo_graph_t *graph, int32_t home) {
  int32_t most = collect(graph, home, -1, NULL) + collect(graph, home, -2, NULL);
  for (int32_t row = 0; row <= ROWS_MAX; row++) {
    int32_t count = collect(graph, home, row, NULL);
    most = count > most ? count : most;
  }
  return most;
}

static bool is_home(const topo_graph_t *graph, int32_t host, int32_t node) {
  return topo_graph_host_of(graph, node) == host && home_of(graph, node) == node &&
         columns_of(graph, node) > 0;
}

double scene_host_width(const topo_graph_t *graph, int32_t host, double column) {
  double width = PAD;
  for (int32_t node = host; node < (int32_t)graph->node_count; node++) {
    if (is_home(graph, host, node)) width += columns_of(graph, node) * column + 6 + PAD;
  }
  return width < 76 ? 76 : width;
}

/* Places a box whose middle is x. `offset` is from the outer side of the host. */
static void place(scene_t *scene, int32_t host, int32_t node, double x, double offset, double width,
                  double height) {
  const scene_box_t *outside = &scene->boxes[host];
  double y = outside->y + offset;
  if (outside->flipped) y = outside->y + outside->height - offset - height;
  scene->boxes[node] = (scene_box_t){.shown = true,
                                     .flipped = outside->flipped,
                                     .x = x - width / 2,
                                     .y = y,
                                     .width = width,
                                     .height = height};
}

typedef struct home {
  int32_t host, node;
  double x, width;
} home_t;

static void place_row(scene_t *scene, const home_t *home, const int32_t nodes[], int32_t count,
                      double offset, double share, double height) {
  for (int32_t i = 0; i < count; i++) {
    double x = home->x + (i + 0.5) / count * home->width;
    place(scene, home->host, nodes[i], x, offset, share * scene->column, height);
  }
}

/* Processors and NUMA nodes are in the middle of the NICs. */
static int32_t collect_bottom(const topo_graph_t *graph, int32_t home, int32_t found[],
                              int32_t spare[]) {
  int32_t nics = collect(graph, home, -1, spare), count = 0;
  for (; count < nics / 2; count++) found[count] = spare[count];
  count += collect(graph, home, -2, found + count);
  for (int32_t i = nics / 2; i < nics; i++) found[count++] = spare[i];
  return count;
}

static void place_home(scene_t *scene, const scene_rows_t *rows, const home_t *home,
                       int32_t nodes[], int32_t spare[]) {
  const topo_graph_t *graph = scene->graph;
  int32_t count = collect(graph, home->node, 0, nodes);
  place_row(scene, home, nodes, count, rows->gpus, 0.84, 20);
  for (int32_t depth = 1; depth <= rows->pci_depth; depth++) {
    count = collect(graph, home->node, depth, nodes);
    double offset = rows->pci + (rows->pci_depth - depth) * rows->step;
    place_row(scene, home, nodes, count, offset, 0.6, 12);
  }
  count = collect_bottom(graph, home->node, nodes, spare);
  place_row(scene, home, nodes, count, rows->bottom, 0.84, 18);
  if (graph->nodes[home->node].kind == TOPO_HOST) return;
  double top = topo_graph_count(graph, TOPO_GPU) > 0 ? rows->gpus : rows->pci;
  scene_box_t chip = scene->boxes[home->node];
  place(scene, home->host, home->node, home->x + home->width / 2, top - 5, home->width + 6,
        rows->bottom + 18 + 5 - top + 5);
  scene->frames[home->node] = scene->boxes[home->node];
  scene->boxes[home->node] = chip;
}

static void place_switches(scene_t *scene, const scene_rows_t *rows, int32_t host) {
  const topo_graph_t *graph = scene->graph;
  const scene_box_t *outside = &scene->boxes[host];
  int32_t count = 0, index = 0;
  for (size_t pass = 0; pass < 2; pass++) {
    for (int32_t node = host; node < (int32_t)graph->node_count; node++) {
      if (graph->nodes[node].kind != TOPO_NVSWITCH || topo_graph_host_of(graph, node) != host) {
        continue;
      }
      if (pass == 0) {
        count++;
        continue;
      }
      double width = (outside->width - 2 * PAD) / count;
      double x = outside->x + PAD + (index++ + 0.5) * width;
      place(scene, host, node, x, rows->switches, width - (count > 1 ? 4 : 0), 16);
    }
  }
}

coll_status_t scene_place_inside(scene_t *scene, const scene_rows_t *rows, int32_t host) {
  const topo_graph_t *graph = scene->graph;
  const scene_box_t *outside = &scene->boxes[host];
  double needed = PAD;
  int32_t *nodes = NULL, *spare = NULL, homes = 0;
  coll_status_t status = base_alloc(graph->node_count, sizeof *nodes, "hosts", (void **)&nodes);
  if (status == COLL_OK) {
    status = base_alloc(graph->node_count, sizeof *spare, "hosts", (void **)&spare);
  }
  for (int32_t node = host; status == COLL_OK && node < (int32_t)graph->node_count; node++) {
    if (!is_home(graph, host, node)) continue;
    needed += columns_of(graph, node) * scene->column + 6 + PAD;
    homes++;
  }
  double x = outside->x + PAD, extra = homes > 0 ? (outside->width - needed) / homes : 0;
  for (int32_t node = host; status == COLL_OK && node < (int32_t)graph->node_count; node++) {
    if (!is_home(graph, host, node)) continue;
    home_t home = {.host = host,
                   .node = node,
                   .x = x + 3,
                   .width = columns_of(graph, node) * scene->column + extra};
    place_home(scene, rows, &home, nodes, spare);
    x += home.width + 6 + PAD;
  }
  if (status == COLL_OK) place_switches(scene, rows, host);
  free(nodes);
  free(spare);
  return status;
}
