/*
 * The rules that a graph must follow, apart from how it was read: every reader builds the graph
 * first and checks it then.
 */
#ifndef TOPO_CHECK_H
#define TOPO_CHECK_H

#include "topo/graph.h"

/* Where the parts of a graph stand in a file, for messages. */
typedef struct topo_source {
  const char *file;
  const int32_t *node_lines, *link_lines; /* of each node and link */
  int32_t grid_line;
} topo_source_t;

/* COLL_ERROR_INVALID: the message names the file and line (not if source is NULL), the rule that is
 * broken, and what to do. Checked are: names are unique and printable; the kinds of nodes and of
 * what contains them match; bandwidths, latencies and counts are in range; links of memory and PCIe
 * stay within one host; torus links connect hosts; the grid's extents multiply to the hosts. */
coll_status_t topo_graph_check(const topo_graph_t *graph, const topo_source_t *source);

/* An index of nodes by name. */
typedef struct topo_names {
  int32_t *slots; /* node + 1, or 0 */
  size_t mask;
} topo_names_t;

/* Indexes all nodes; *twin is a node whose name an earlier one has, or TOPO_NONE. The caller frees
 * names->slots. COLL_ERROR_MEMORY. */
coll_status_t topo_names_create(const topo_graph_t *graph, topo_names_t *names, int32_t *twin);

/* The first node of that name, or TOPO_NONE. */
int32_t topo_names_find(const topo_graph_t *graph, const topo_names_t *names, const char *name);

#endif
