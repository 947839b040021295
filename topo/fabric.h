/*
 * The links that data between ranks travel over: a graph, the node of each rank, and the path of
 * each pair of ranks, found when first asked for. What a layout (topo/layout.h) knows of the speed
 * of links, for the cost model. Times are integers, so that all ranks compute the same sums.
 */
#ifndef TOPO_FABRIC_H
#define TOPO_FABRIC_H

#include "topo/graph.h"

/* One direction of a link of the graph, its parallel links together. Link i is wire 2i from a to b,
 * and wire 2i + 1 from b to a. */
typedef struct topo_wire {
  topo_class_t link_class;
  uint64_t kib_ps; /* picoseconds per KiB */
  uint64_t latency_ps;
} topo_wire_t;

/* How long the wire needs for that many bytes, without its latency. */
static inline uint64_t topo_wire_ps(const topo_wire_t *wire, uint64_t bytes) {
  return bytes / 1024 * wire->kib_ps + bytes % 1024 * wire->kib_ps / 1024;
}

typedef struct topo_fabric topo_fabric_t;

/* Takes the graph over, also on failure; it must be valid (topo_graph_check). node_of[size]: the
 * node of each rank. Owned by the caller until topo_fabric_free. COLL_ERROR_MEMORY. */
coll_status_t topo_fabric_create(topo_graph_t *graph, int32_t size, const int32_t node_of[],
                                 topo_fabric_t **fabric);
void topo_fabric_free(topo_fabric_t *fabric);

/* *part: of count >= 1 of the ranks, in that order, as ranks 0 to count - 1. NULL of NULL. It
 * shares the graph. Owned by the caller. */
coll_status_t topo_fabric_select(const topo_fabric_t *fabric, const int32_t ranks[], int32_t count,
                                 topo_fabric_t **part);

/* The wires of the path between two ranks, in order, owned by the fabric; none (*count 0) if both
 * have the same node. Not safe for concurrent calls. COLL_ERROR_INVALID: no links connect them. */
coll_status_t topo_fabric_path(topo_fabric_t *fabric, int32_t from, int32_t to,
                               const int32_t **wires, int32_t *count);

/* *connected: whether there is a path between any two ranks. */
coll_status_t topo_fabric_is_connected(const topo_fabric_t *fabric, bool *connected);

int32_t topo_fabric_wire_count(const topo_fabric_t *fabric);
topo_wire_t topo_fabric_wire(const topo_fabric_t *fabric, int32_t wire);

/* The nodes that the wire leads from and to. */
const topo_node_t *topo_fabric_wire_from(const topo_fabric_t *fabric, int32_t wire);
const topo_node_t *topo_fabric_wire_to(const topo_fabric_t *fabric, int32_t wire);

/* The graph, and the node of a rank in it. */
const topo_graph_t *topo_fabric_graph(const topo_fabric_t *fabric);
int32_t topo_fabric_node(const topo_fabric_t *fabric, int32_t rank);

/* Differs, but for chance, if the links or the ranks' nodes do. 0 for NULL only. */
uint64_t topo_fabric_digest(const topo_fabric_t *fabric);

#endif
