/*
 * One host of a graph as programs see it that number devices: cpus (its NUMA nodes, and packages
 * without NUMA nodes), cores in the order of nodes, made-up PCI buses. For writers of formats of
 * one host.
 */
#ifndef TOPO_HOST_VIEW_H
#define TOPO_HOST_VIEW_H

#include <stdio.h>

#include "topo/graph.h"

#define TOPO_VIEW_DEPTH_MAX 48 /* of nodes in nodes */

typedef struct topo_view_node {
  int32_t cpu;                       /* index of the cpu that contains it or is it; 0 for others */
  int32_t number;                    /* among the nodes of its kind in the host */
  int32_t bus;                       /* PCI switch, GPU, NIC, NVSwitch: bus number, from 1 up */
  int32_t last_bus;                  /* greatest of what it contains */
  int32_t first_child, next_sibling; /* nodes or TOPO_NONE */
  int32_t uplink;                    /* link of PCIe or memory with the parent, or TOPO_NONE */
  bool is_inside;                    /* of this host */
} topo_view_node_t;

typedef struct topo_host_view {
  const topo_graph_t *graph;
  int32_t host;
  topo_view_node_t *nodes; /* for each node of the graph */
  int32_t *cpus;           /* nodes; at least the host itself */
  int32_t cpu_count, core_count;
  FILE *warnings;
} topo_host_view_t;

/* *view: of the host of that name, or of the only one if name is NULL. `format` is who reads the
 * file, for messages. Freed by topo_host_view_free, also after a failure. COLL_ERROR_INVALID:
 * several hosts and no name, no host of that name, nodes nested too deep. */
coll_status_t topo_host_view_create(const topo_graph_t *graph, const char *name, const char *format,
                                    FILE *warnings, topo_host_view_t *view);
void topo_host_view_free(topo_host_view_t *view);

/* Whether the node is a PCI switch, GPU or NIC that no PCI switch contains. */
bool topo_host_view_is_root_device(const topo_host_view_t *view, int32_t node);

/* Whether a PCI switch is linked to the processors, and faster than PCIe 6.0 x16 can be. */
bool topo_host_view_is_root_complex(const topo_host_view_t *view, int32_t node);

/* GB/s per direction of the link of PCIe or memory with the parent; 0: there is none. */
double topo_host_view_uplink_gbs(const topo_host_view_t *view, int32_t node);

/* The end of the link that is not the node; TOPO_NONE if the link is not the node's. */
int32_t topo_link_other(const topo_link_t *link, int32_t node);

/* "0000:0c:00.0" */
typedef struct topo_bus_id {
  char text[16];
} topo_bus_id_t;

topo_bus_id_t topo_bus_id(int32_t bus);

/* The part of a node's name after the last '/'. */
const char *topo_node_short_name(const topo_node_t *node);

/* Writes name="text", with '_' for what is not printable ASCII or has a meaning in XML. */
void topo_xml_write_text(FILE *out, const char *name, const char *text);

/* Writes a line about what the format cannot express. */
void topo_host_view_warn(const topo_host_view_t *view, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
