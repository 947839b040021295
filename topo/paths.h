/*
 * Paths in a graph of machines: the widest one between two nodes and, of those, the one of lowest
 * latency. Cores and GPUs do not forward: a path may begin and end there, but
 * leads through switches, NICs, packages, NUMA domains and hosts only.
 */
#ifndef TOPO_PATHS_H
#define TOPO_PATHS_H

#include "topo/graph.h"

/* The links of each node. Refers to the graph, which must live as long and not change. */
typedef struct topo_paths topo_paths_t;

/* Owned by the caller until topo_paths_free. COLL_ERROR_MEMORY. */
coll_status_t topo_paths_create(const topo_graph_t *graph, topo_paths_t **paths);
void topo_paths_free(topo_paths_t *paths);

typedef struct topo_path {
  int32_t hops;
  int32_t *links;         /* [hops]: of the graph, in order from `from` to `to` */
  int32_t *nodes;         /* [hops + 1]: from first */
  double gigabytes_per_s; /* of the narrowest link, its parallel links together; infinite for no
                             hops */
  double latency_us;      /* sum of the links' */
} topo_path_t;

/* reached[nodes]: the nodes to which there is a path. */
coll_status_t topo_paths_reach(const topo_paths_t *paths, int32_t from, bool reached[]);

/* The caller calls topo_path_free. COLL_ERROR_INVALID: no links connect the nodes. */
coll_status_t topo_path_find(const topo_paths_t *paths, int32_t from, int32_t to,
                             topo_path_t *path);

/* The same, but of several such paths the one that `flow` >= 0 selects, as switches divide traffic
 * among equal paths. With the number of the destination as the flow, this is the D-mod-k routing of
 * fat trees (Zahavi 2010), by which a permutation of hosts loads all links equally. */
coll_status_t topo_path_find_flow(const topo_paths_t *paths, int32_t from, int32_t to, int32_t flow,
                                  topo_path_t *path);
void topo_path_free(topo_path_t *path);

/* GB/s per direction of a link's parallel links together. */
static inline double topo_link_width(const topo_link_t *link) {
  return link->gigabytes_per_s * link->count;
}

#endif
