/*
 * A graph of machines and fabrics: nodes (hosts and what they contain, network switches) and the
 * links between them. Plain data that is read from a file, discovered, made from a description of a
 * known machine, merged from several hosts, and drawn. A layout (topo/layout.h) follows from it.
 */
#ifndef TOPO_GRAPH_H
#define TOPO_GRAPH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

#define TOPO_NAME_BYTES 64
#define TOPO_NODES_MAX (1 << 20)
#define TOPO_GRID_DIMS_MAX 3
#define TOPO_NONE (-1) /* no node */

typedef enum topo_kind {
  TOPO_HOST,
  TOPO_PACKAGE,
  TOPO_NUMA,
  TOPO_CORE,
  TOPO_GPU,
  TOPO_PCI_SWITCH, /* also a root complex */
  TOPO_NVSWITCH,   /* switch of a GPU fabric, within a host or across hosts */
  TOPO_NIC,
  TOPO_SWITCH, /* network switch */
  TOPO_KIND_COUNT
} topo_kind_t;

typedef enum topo_class {
  TOPO_CLASS_CACHE,  /* cores that share a cache */
  TOPO_CLASS_MEMORY, /* NUMA nodes, packages */
  TOPO_CLASS_NVLINK, /* NVLink, xGMI */
  TOPO_CLASS_PCIE,
  TOPO_CLASS_INFINIBAND, /* also RoCE */
  TOPO_CLASS_ETHERNET,
  TOPO_CLASS_TORUS,
  TOPO_CLASS_COUNT
} topo_class_t;

typedef struct topo_node {
  topo_kind_t kind;
  int32_t parent; /* the node that contains this one, always an earlier one; TOPO_NONE for hosts,
                     network switches, and NVSwitches that connect hosts */
  char name[TOPO_NAME_BYTES];  /* unique: "host0/gpu3" */
  char model[TOPO_NAME_BYTES]; /* "H100 SXM", "mlx5_0"; may be "" */
} topo_node_t;

/* A link between two nodes, in both directions. */
typedef struct topo_link {
  int32_t a, b;
  topo_class_t link_class;
  int32_t count;          /* parallel links of this kind, >= 1 */
  double gigabytes_per_s; /* of one of them, per direction; 10^9 bytes; > 0 */
  double latency_us;      /* one way; >= 0 */
} topo_link_t;

/* A grid of hosts: the i-th host (in order of nodes) has the i-th coordinates in row-major order,
 * the last dimension fastest. Its links are in the graph, of class TORUS. */
typedef struct topo_grid {
  int32_t dims; /* 0: no grid */
  int32_t extents[TOPO_GRID_DIMS_MAX];
  bool wraps; /* torus; false: mesh */
} topo_grid_t;

typedef struct topo_graph {
  char name[TOPO_NAME_BYTES]; /* of the whole, such as "dgx-h100"; may be "" */
  topo_node_t *nodes;
  size_t node_count, node_capacity;
  topo_link_t *links;
  size_t link_count, link_capacity;
  topo_grid_t grid;
} topo_graph_t;

/* Creates an empty graph, owned by the caller until topo_graph_free. COLL_ERROR_MEMORY. */
coll_status_t topo_graph_create(const char *name, topo_graph_t **graph);
void topo_graph_free(topo_graph_t *graph);

/* *copy is owned by the caller. COLL_ERROR_MEMORY. */
coll_status_t topo_graph_copy(const topo_graph_t *graph, topo_graph_t **copy);

/* Adds a node without model; *node is its number. COLL_ERROR_INVALID: the name is too long, or
 * there are too many nodes. Uniqueness of names is checked by topo_graph_check. */
coll_status_t topo_graph_add_node(topo_graph_t *graph, topo_kind_t kind, int32_t parent,
                                  const char *name, int32_t *node);

/* Adds a link. */
coll_status_t topo_graph_add_link(topo_graph_t *graph, const topo_link_t *link);

/* The host that contains the node, or is it; TOPO_NONE for switches outside hosts. */
int32_t topo_graph_host_of(const topo_graph_t *graph, int32_t node);

/* Number of nodes of a kind. */
size_t topo_graph_count(const topo_graph_t *graph, topo_kind_t kind);

const char *topo_kind_name(topo_kind_t kind);         /* "pci-switch" */
const char *topo_class_name(topo_class_t link_class); /* "nvlink" */

/* The kind or class of that name; false if there is none. */
bool topo_kind_of(const char *name, topo_kind_t *kind);
bool topo_class_of(const char *name, topo_class_t *link_class);

#endif
