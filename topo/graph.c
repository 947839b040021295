/* Creates graphs and adds to them. */
#include "topo/graph.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

static const char *const kind_names[TOPO_KIND_COUNT] = {
    [TOPO_HOST] = "host",         [TOPO_PACKAGE] = "package", [TOPO_NUMA] = "numa",
    [TOPO_CORE] = "core",         [TOPO_GPU] = "gpu",         [TOPO_PCI_SWITCH] = "pci-switch",
    [TOPO_NVSWITCH] = "nvswitch", [TOPO_NIC] = "nic",         [TOPO_SWITCH] = "switch",
};

static const char *const class_names[TOPO_CLASS_COUNT] = {
    [TOPO_CLASS_CACHE] = "cache",           [TOPO_CLASS_MEMORY] = "memory",
    [TOPO_CLASS_NVLINK] = "nvlink",         [TOPO_CLASS_PCIE] = "pcie",
    [TOPO_CLASS_INFINIBAND] = "infiniband", [TOPO_CLASS_ETHERNET] = "ethernet",
    [TOPO_CLASS_TORUS] = "torus",
};

coll_status_t topo_graph_create(const char *name, topo_graph_t **graph) {
  *graph = NULL;
  if (strlen(name) >= TOPO_NAME_BYTES) {
    return base_fail(COLL_ERROR_INVALID, "the topology's name '%.20s…' has more than %d bytes",
                     name, TOPO_NAME_BYTES - 1);
  }
  COLL_TRY(base_alloc(1, sizeof **graph, "a topology", (void **)graph));
  snprintf((*graph)->name, TOPO_NAME_BYTES, "%s", name);
  return COLL_OK;
}

void topo_graph_free(topo_graph_t *graph) {
  if (graph == NULL) return;
  free(graph->nodes);
  free(graph->links);
  free(graph);
}

coll_status_t topo_graph_copy(const topo_graph_t *graph, topo_graph_t **copy) {
  topo_graph_t *made;
  COLL_TRY(topo_graph_create(graph->name, &made));
  made->grid = graph->grid;
  coll_status_t status = base_grow((void **)&made->nodes, &made->node_capacity, graph->node_count,
                                   sizeof *made->nodes, "a topology's nodes");
  if (status == COLL_OK) {
    status = base_grow((void **)&made->links, &made->link_capacity, graph->link_count,
                       sizeof *made->links, "a topology's links");
  }
  if (status != COLL_OK) {
    topo_graph_free(made);
    return status;
  }
  made->node_count = graph->node_count;
  made->link_count = graph->link_count;
  if (graph->node_count > 0) {
    memcpy(made->nodes, graph->nodes, graph->node_count * sizeof *made->nodes);
  }
  if (graph->link_count > 0) {
    memcpy(made->links, graph->links, graph->link_count * sizeof *made->links);
  }
  *copy = made;
  return COLL_OK;
}

coll_status_t topo_graph_add_node(topo_graph_t *graph, topo_kind_t kind, int32_t parent,
                                  const char *name, int32_t *node) {
  if (strlen(name) >= TOPO_NAME_BYTES) {
    return base_fail(COLL_ERROR_INVALID, "the name of node '%.20s…' has more than %d bytes", name,
                     TOPO_NAME_BYTES - 1);
  }
  if (graph->node_count >= TOPO_NODES_MAX) {
    return base_fail(COLL_ERROR_INVALID, "a topology has at most %d nodes", TOPO_NODES_MAX);
  }
  COLL_TRY(base_grow((void **)&graph->nodes, &graph->node_capacity, graph->node_count + 1,
                     sizeof *graph->nodes, "a topology's nodes"));
  topo_node_t *added = &graph->nodes[graph->node_count];
  *added = (topo_node_t){.kind = kind, .parent = parent};
  snprintf(added->name, TOPO_NAME_BYTES, "%s", name);
  *node = (int32_t)graph->node_count++;
  return COLL_OK;
}

coll_status_t topo_graph_add_link(topo_graph_t *graph, const topo_link_t *link) {
  COLL_TRY(base_grow((void **)&graph->links, &graph->link_capacity, graph->link_count + 1,
                     sizeof *graph->links, "a topology's links"));
  graph->links[graph->link_count++] = *link;
  return COLL_OK;
}

int32_t topo_graph_host_of(const topo_graph_t *graph, int32_t node) {
  while (node != TOPO_NONE && graph->nodes[node].kind != TOPO_HOST) {
    node = graph->nodes[node].parent;
  }
  return node;
}

size_t topo_graph_count(const topo_graph_t *graph, topo_kind_t kind) {
  size_t count = 0;
  for (size_t i = 0; i < graph->node_count; i++) count += graph->nodes[i].kind == kind;
  return count;
}

const char *topo_kind_name(topo_kind_t kind) {
  return kind_names[kind];
}

const char *topo_class_name(topo_class_t link_class) {
  return class_names[link_class];
}

/* The index of a name, or count. */
static int index_of(const char *const names[], int count, const char *name) {
  int i = 0;
  while (i < count && strcmp(names[i], name) != 0) i++;
  return i;
}

bool topo_kind_of(const char *name, topo_kind_t *kind) {
  int i = index_of(kind_names, TOPO_KIND_COUNT, name);
  if (i < TOPO_KIND_COUNT) *kind = (topo_kind_t)i;
  return i < TOPO_KIND_COUNT;
}

bool topo_class_of(const char *name, topo_class_t *link_class) {
  int i = index_of(class_names, TOPO_CLASS_COUNT, name);
  if (i < TOPO_CLASS_COUNT) *link_class = (topo_class_t)i;
  return i < TOPO_CLASS_COUNT;
}
