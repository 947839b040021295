/* Each rule is a function that returns the first violation. */
#include "topo/check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/text.h"

/* ---- names --------------------------------------------------------------------------------- */

/* The slot of a name, or the empty one where it belongs. */
static size_t slot_of(const topo_graph_t *graph, const topo_names_t *names, const char *name) {
  size_t slot = base_text_hash(BASE_TEXT_HASH_OF_NOTHING, name) & names->mask;
  while (names->slots[slot] != 0 && strcmp(graph->nodes[names->slots[slot] - 1].name, name) != 0) {
    slot = (slot + 1) & names->mask;
  }
  return slot;
}

coll_status_t topo_names_create(const topo_graph_t *graph, topo_names_t *names, int32_t *twin) {
  size_t slots = 16;
  while (slots < 2 * graph->node_count) slots *= 2;
  COLL_TRY(base_alloc(slots, sizeof *names->slots, "names of nodes", (void **)&names->slots));
  names->mask = slots - 1;
  *twin = TOPO_NONE;
  for (size_t i = 0; i < graph->node_count; i++) {
    size_t slot = slot_of(graph, names, graph->nodes[i].name);
    if (names->slots[slot] == 0) {
      names->slots[slot] = (int32_t)i + 1;
    } else if (*twin == TOPO_NONE) {
      *twin = (int32_t)i;
    }
  }
  return COLL_OK;
}

int32_t topo_names_find(const topo_graph_t *graph, const topo_names_t *names, const char *name) {
  return names->slots[slot_of(graph, names, name)] - 1;
}

/* ---- messages ------------------------------------------------------------------------------ */

typedef struct place {
  char text[512];
} place_t;

/* "file:line: ", or "" without a source. lines NULL: the grid. */
static place_t place_of(const topo_source_t *source, const int32_t *lines, size_t index) {
  place_t place = {""};
  if (source != NULL) {
    snprintf(place.text, sizeof place.text, "%s:%d: ", source->file,
             lines != NULL ? lines[index] : source->grid_line);
  }
  return place;
}

static place_t node_place(const topo_source_t *source, size_t node) {
  return place_of(source, source != NULL ? source->node_lines : NULL, node);
}

static place_t link_place(const topo_source_t *source, size_t link) {
  return place_of(source, source != NULL ? source->link_lines : NULL, link);
}

/* ---- nodes --------------------------------------------------------------------------------- */

#define IN(kind) (1u << (kind))
#define NOTHING IN(TOPO_KIND_COUNT)
#define CPU_PARTS (IN(TOPO_HOST) | IN(TOPO_PACKAGE) | IN(TOPO_NUMA))

/* What may contain a node of a kind. */
static const unsigned containers[TOPO_KIND_COUNT] = {
    [TOPO_HOST] = NOTHING,
    [TOPO_PACKAGE] = IN(TOPO_HOST) | IN(TOPO_NUMA),
    [TOPO_NUMA] = IN(TOPO_HOST) | IN(TOPO_PACKAGE),
    [TOPO_CORE] = CPU_PARTS,
    [TOPO_GPU] = CPU_PARTS | IN(TOPO_PCI_SWITCH),
    [TOPO_PCI_SWITCH] = CPU_PARTS | IN(TOPO_PCI_SWITCH),
    [TOPO_NVSWITCH] = NOTHING | IN(TOPO_HOST),
    [TOPO_NIC] = CPU_PARTS | IN(TOPO_PCI_SWITCH),
    [TOPO_SWITCH] = NOTHING,
};

static bool is_printable(const char *name) {
  if (*name == '\0') return false;
  for (; *name != '\0'; name++) {
    if ((unsigned char)*name < ' ' || *name == 127) return false;
  }
  return true;
}

static coll_status_t check_node(const topo_graph_t *graph, const topo_source_t *source, size_t i) {
  const topo_node_t *node = &graph->nodes[i];
  if (!is_printable(node->name)) {
    return base_fail(COLL_ERROR_INVALID,
                     "%sthe node's name is empty or has control characters; give it a unique name",
                     node_place(source, i).text);
  }
  if (node->parent < TOPO_NONE || node->parent >= (int32_t)i) {
    return base_fail(COLL_ERROR_INVALID,
                     "%s'%s' precedes the node that contains it; list hosts first",
                     node_place(source, i).text, node->name);
  }
  bool outside = node->parent == TOPO_NONE;
  topo_kind_t parent_kind = outside ? TOPO_KIND_COUNT : graph->nodes[node->parent].kind;
  if ((containers[node->kind] & IN(parent_kind)) != 0) return COLL_OK;
  if (outside) {
    return base_fail(COLL_ERROR_INVALID, "%s%s '%s' is in no host; name what contains it",
                     node_place(source, i).text, topo_kind_name(node->kind), node->name);
  }
  return base_fail(COLL_ERROR_INVALID, "%s%s '%s' cannot be in %s '%s'; correct the parent",
                   node_place(source, i).text, topo_kind_name(node->kind), node->name,
                   topo_kind_name(parent_kind), graph->nodes[node->parent].name);
}

static coll_status_t check_names(const topo_graph_t *graph, const topo_source_t *source) {
  topo_names_t names;
  int32_t twin;
  COLL_TRY(topo_names_create(graph, &names, &twin));
  free(names.slots);
  if (twin == TOPO_NONE) return COLL_OK;
  return base_fail(COLL_ERROR_INVALID, "%stwo nodes are called '%s'; give each its own name",
                   node_place(source, (size_t)twin).text, graph->nodes[twin].name);
}

/* ---- links --------------------------------------------------------------------------------- */

static bool stays_in_host(topo_class_t link_class) {
  return link_class == TOPO_CLASS_CACHE || link_class == TOPO_CLASS_MEMORY ||
         link_class == TOPO_CLASS_PCIE;
}

/* Times are computed in integer ps and must neither vanish nor overflow. */
#define WIDTH_MIN 1e-6
#define WIDTH_MAX 1e6
#define LATENCY_US_MAX 1e6

static bool is_in_range(const topo_link_t *link) {
  double width = link->gigabytes_per_s * link->count;
  return width >= WIDTH_MIN && width <= WIDTH_MAX && link->latency_us <= LATENCY_US_MAX;
}

static coll_status_t check_numbers(const topo_graph_t *graph, const topo_source_t *source,
                                   size_t i) {
  const topo_link_t *link = &graph->links[i];
  const char *fault = link->a == link->b ? "connects a node with itself; remove it"
                      : link->count < 1  ? "needs a count of 1 or more"
                      : !(link->gigabytes_per_s > 0.0) || !isfinite(link->gigabytes_per_s)
                          ? "needs a bandwidth above 0 GB/s"
                      : !(link->latency_us >= 0.0) || !isfinite(link->latency_us)
                          ? "needs a latency of 0 us or more"
                      : !is_in_range(link)
                          ? "needs 1e-6 to 1e6 GB/s in all, and a latency of at most 1e6 us"
                          : NULL;
  if (fault == NULL) return COLL_OK;
  return base_fail(COLL_ERROR_INVALID, "%sthe link of '%s' and '%s' %s", link_place(source, i).text,
                   graph->nodes[link->a].name, graph->nodes[link->b].name, fault);
}

static coll_status_t check_ends(const topo_graph_t *graph, const topo_source_t *source, size_t i) {
  const topo_link_t *link = &graph->links[i];
  const topo_node_t *a = &graph->nodes[link->a], *b = &graph->nodes[link->b];
  int32_t host_a = topo_graph_host_of(graph, link->a), host_b = topo_graph_host_of(graph, link->b);
  if (stays_in_host(link->link_class) && (host_a != host_b || host_a == TOPO_NONE)) {
    return base_fail(COLL_ERROR_INVALID,
                     "%sthe %s link of '%s' and '%s' leaves the host; a PCI switch or memory "
                     "belongs to one host: give each host its own, or use a network class",
                     link_place(source, i).text, topo_class_name(link->link_class), a->name,
                     b->name);
  }
  if (link->link_class == TOPO_CLASS_TORUS && (a->kind != TOPO_HOST || b->kind != TOPO_HOST)) {
    return base_fail(COLL_ERROR_INVALID,
                     "%sthe torus link of '%s' and '%s' must connect two hosts, which are the "
                     "routers of a torus",
                     link_place(source, i).text, a->name, b->name);
  }
  return COLL_OK;
}

static coll_status_t check_link(const topo_graph_t *graph, const topo_source_t *source, size_t i) {
  const topo_link_t *link = &graph->links[i];
  int32_t nodes = (int32_t)graph->node_count;
  if (link->a < 0 || link->a >= nodes || link->b < 0 || link->b >= nodes) {
    return base_fail(COLL_ERROR_INVALID, "%slink %zu names a node that does not exist",
                     link_place(source, i).text, i);
  }
  COLL_TRY(check_numbers(graph, source, i));
  return check_ends(graph, source, i);
}

/* ---- the grid ------------------------------------------------------------------------------ */

static coll_status_t check_grid(const topo_graph_t *graph, const topo_source_t *source) {
  const topo_grid_t *grid = &graph->grid;
  if (grid->dims == 0) return COLL_OK;
  size_t hosts = topo_graph_count(graph, TOPO_HOST);
  uint64_t cells = 1;
  bool legal = grid->dims > 0 && grid->dims <= TOPO_GRID_DIMS_MAX;
  for (int32_t i = 0; legal && i < grid->dims; i++) {
    legal = grid->extents[i] > 0 && grid->extents[i] <= TOPO_NODES_MAX;
    if (legal) cells *= (uint64_t)grid->extents[i];
  }
  if (legal && cells == hosts) return COLL_OK;
  return base_fail(COLL_ERROR_INVALID,
                   "%sthe grid's extents do not multiply to the number of hosts (%zu); give up to "
                   "%d extents whose product it is",
                   place_of(source, NULL, 0).text, hosts, TOPO_GRID_DIMS_MAX);
}

coll_status_t topo_graph_check(const topo_graph_t *graph, const topo_source_t *source) {
  for (size_t i = 0; i < graph->node_count; i++) COLL_TRY(check_node(graph, source, i));
  COLL_TRY(check_names(graph, source));
  for (size_t i = 0; i < graph->link_count; i++) COLL_TRY(check_link(graph, source, i));
  if (topo_graph_count(graph, TOPO_HOST) == 0) {
    return base_fail(COLL_ERROR_INVALID, "%s%sthe topology has no host; add a node of kind host",
                     source != NULL ? source->file : "", source != NULL ? ":1: " : "");
  }
  return check_grid(graph, source);
}
