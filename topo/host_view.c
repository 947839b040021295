/* One pass over the nodes and one over the links; a parent comes before what it contains. */
#include "topo/host_view.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

#define PCIE_MAX_GBS 122.0 /* 16 lanes of 64 GT/s, less encoding */

enum { BUSES = 255 }; /* of a PCI domain; bus 0 is not used */

static coll_status_t find_host(const topo_graph_t *graph, const char *name, const char *format,
                               int32_t *host) {
  size_t hosts = topo_graph_count(graph, TOPO_HOST);
  for (size_t i = 0; i < graph->node_count; i++) {
    const topo_node_t *node = &graph->nodes[i];
    if (node->kind != TOPO_HOST || (name != NULL && strcmp(name, node->name) != 0)) continue;
    *host = (int32_t)i;
    if (name != NULL || hosts == 1) return COLL_OK;
    return base_fail(COLL_ERROR_INVALID,
                     "the topology has %zu hosts and %s describes one; name it, as in --host %s",
                     hosts, format, node->name);
  }
  return base_fail(COLL_ERROR_INVALID, "no host is called '%s'; colltopo show lists them",
                   name != NULL ? name : "");
}

static bool has_bus(topo_kind_t kind) {
  return kind == TOPO_PCI_SWITCH || kind == TOPO_GPU || kind == TOPO_NIC || kind == TOPO_NVSWITCH;
}

static coll_status_t check_depth(const topo_graph_t *graph, int32_t node) {
  int depth = 0;
  for (int32_t at = node; at != TOPO_NONE && depth <= TOPO_VIEW_DEPTH_MAX; depth++) {
    at = graph->nodes[at].parent;
  }
  if (depth <= TOPO_VIEW_DEPTH_MAX) return COLL_OK;
  return base_fail(COLL_ERROR_INVALID, "'%s' is in more than %d others; remove PCI switches",
                   graph->nodes[node].name, TOPO_VIEW_DEPTH_MAX - 1);
}

/* Children, in the order of nodes. */
static coll_status_t link_nodes(topo_host_view_t *view) {
  const topo_graph_t *graph = view->graph;
  for (int32_t i = 0; i < (int32_t)graph->node_count; i++) {
    int32_t parent = graph->nodes[i].parent;
    view->nodes[i].is_inside =
        i == view->host || (parent != TOPO_NONE && view->nodes[parent].is_inside);
  }
  for (int32_t i = (int32_t)graph->node_count - 1; i >= 0; i--) {
    int32_t parent = graph->nodes[i].parent;
    topo_view_node_t *each = &view->nodes[i];
    if (!each->is_inside) continue;
    COLL_TRY(check_depth(graph, i));
    each->next_sibling = TOPO_NONE;
    if (parent == TOPO_NONE) continue;
    each->next_sibling = view->nodes[parent].first_child;
    view->nodes[parent].first_child = i;
  }
  return COLL_OK;
}

static bool contains_numa(const topo_host_view_t *view, int32_t node) {
  int32_t child = view->nodes[node].first_child;
  while (child != TOPO_NONE && view->graph->nodes[child].kind != TOPO_NUMA) {
    child = view->nodes[child].next_sibling;
  }
  return child != TOPO_NONE;
}

static bool is_in_numa(const topo_graph_t *graph, int32_t node) {
  while (node != TOPO_NONE && graph->nodes[node].kind != TOPO_NUMA) {
    node = graph->nodes[node].parent;
  }
  return node != TOPO_NONE;
}

static bool is_cpu(const topo_host_view_t *view, int32_t node) {
  topo_kind_t kind = view->graph->nodes[node].kind;
  return kind == TOPO_NUMA ||
         (kind == TOPO_PACKAGE && !contains_numa(view, node) && !is_in_numa(view->graph, node));
}

/* The cpu of a node is that of its parent; that of a package of several cpus is the first. */
static void number_nodes(topo_host_view_t *view) {
  const topo_graph_t *graph = view->graph;
  int32_t numbers[TOPO_KIND_COUNT] = {0};
  for (int32_t i = 0; i < (int32_t)graph->node_count; i++) {
    topo_view_node_t *each = &view->nodes[i];
    const topo_node_t *node = &graph->nodes[i];
    if (!each->is_inside) continue;
    each->cpu = node->parent == TOPO_NONE ? 0 : view->nodes[node->parent].cpu;
    if (is_cpu(view, i)) {
      each->cpu = view->cpu_count;
      view->cpus[view->cpu_count++] = i;
    } else if (node->kind == TOPO_PACKAGE && contains_numa(view, i)) {
      each->cpu = view->cpu_count;
    }
    each->number = numbers[node->kind]++;
  }
  view->core_count = numbers[TOPO_CORE];
  if (view->cpu_count == 0) view->cpus[view->cpu_count++] = view->host;
}

/* Buses in the order of the tree, so that those under a switch are its next ones. */
static int32_t number_buses(topo_host_view_t *view, int32_t node, int32_t bus) {
  topo_view_node_t *each = &view->nodes[node];
  if (has_bus(view->graph->nodes[node].kind)) each->bus = bus++;
  for (int32_t child = each->first_child; child != TOPO_NONE;) {
    bus = number_buses(view, child, bus);
    child = view->nodes[child].next_sibling;
  }
  each->last_bus = bus - 1;
  return bus;
}

static void find_uplinks(topo_host_view_t *view) {
  const topo_graph_t *graph = view->graph;
  for (size_t i = 0; i < graph->link_count; i++) {
    const topo_link_t *link = &graph->links[i];
    if (link->link_class != TOPO_CLASS_PCIE && link->link_class != TOPO_CLASS_MEMORY) continue;
    if (graph->nodes[link->b].parent == link->a) view->nodes[link->b].uplink = (int32_t)i;
    if (graph->nodes[link->a].parent == link->b) view->nodes[link->a].uplink = (int32_t)i;
  }
}

coll_status_t topo_host_view_create(const topo_graph_t *graph, const char *name, const char *format,
                                    FILE *warnings, topo_host_view_t *view) {
  *view = (topo_host_view_t){.graph = graph, .warnings = warnings};
  COLL_TRY(find_host(graph, name, format, &view->host));
  COLL_TRY(base_alloc(graph->node_count, sizeof *view->nodes, "a host", (void **)&view->nodes));
  COLL_TRY(base_alloc(graph->node_count, sizeof *view->cpus, "a host", (void **)&view->cpus));
  for (size_t i = 0; i < graph->node_count; i++) {
    view->nodes[i].first_child = view->nodes[i].next_sibling = view->nodes[i].uplink = TOPO_NONE;
  }
  COLL_TRY(link_nodes(view));
  number_nodes(view);
  int32_t bus = number_buses(view, view->host, 1);
  for (size_t i = 0; i < graph->node_count; i++) {
    bool is_outside = graph->nodes[i].kind == TOPO_NVSWITCH && !view->nodes[i].is_inside;
    if (is_outside) view->nodes[i].bus = bus++;
  }
  find_uplinks(view);
  return COLL_OK;
}

void topo_host_view_free(topo_host_view_t *view) {
  free(view->nodes);
  free(view->cpus);
}

bool topo_host_view_is_root_device(const topo_host_view_t *view, int32_t node) {
  const topo_node_t *nodes = view->graph->nodes;
  topo_kind_t kind = nodes[node].kind;
  bool is_device = kind == TOPO_PCI_SWITCH || kind == TOPO_GPU || kind == TOPO_NIC;
  return is_device && view->nodes[node].is_inside &&
         nodes[nodes[node].parent].kind != TOPO_PCI_SWITCH;
}

double topo_host_view_uplink_gbs(const topo_host_view_t *view, int32_t node) {
  int32_t uplink = view->nodes[node].uplink;
  if (uplink == TOPO_NONE) return 0;
  return view->graph->links[uplink].count * view->graph->links[uplink].gigabytes_per_s;
}

bool topo_host_view_is_root_complex(const topo_host_view_t *view, int32_t node) {
  return view->graph->nodes[node].kind == TOPO_PCI_SWITCH &&
         topo_host_view_is_root_device(view, node) &&
         topo_host_view_uplink_gbs(view, node) > PCIE_MAX_GBS;
}

int32_t topo_link_other(const topo_link_t *link, int32_t node) {
  return link->a == node ? link->b : link->b == node ? link->a : TOPO_NONE;
}

topo_bus_id_t topo_bus_id(int32_t bus) {
  topo_bus_id_t id;
  snprintf(id.text, sizeof id.text, "%04x:%02x:00.0", (unsigned)((bus - 1) / BUSES) & 0xffff,
           (unsigned)((bus - 1) % BUSES + 1));
  return id;
}

const char *topo_node_short_name(const topo_node_t *node) {
  const char *slash = strrchr(node->name, '/');
  return slash == NULL || slash[1] == '\0' ? node->name : slash + 1;
}

void topo_xml_write_text(FILE *out, const char *name, const char *text) {
  fprintf(out, " %s=\"", name);
  for (; *text != '\0'; text++) {
    bool is_plain = *text >= ' ' && *text < 127 && strchr("<>&\"'", *text) == NULL;
    fputc(is_plain ? *text : '_', out);
  }
  fputc('"', out);
}

void topo_host_view_warn(const topo_host_view_t *view, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  fputs("warning: ", view->warnings);
  vfprintf(view->warnings, format, arguments);
  fputc('\n', view->warnings);
  va_end(arguments);
}
