/*
 * The wires of a fabric as servers: each carries one piece of data after another, in the order in
 * which they are sent, at its bandwidth. Contention of messages for a wire follows from that.
 *
 * A piece is in the queues of all wires of its path from the moment at which it is sent, not from
 * that at which it would get to each wire. So a wire is never kept free for a piece that is still
 * waiting elsewhere, and how long wires need for several pieces hardly depends on which of them was
 * sent first, which ranks of a real machine do not agree on.
 */
#ifndef TUNE_WIRES_H
#define TUNE_WIRES_H

#include "topo/fabric.h"
#include "tune/tune.h"

typedef struct tune_wire_load {
  uint64_t free_ps; /* when all that was sent so far has entered the wire */
  uint64_t busy_ps, bytes;
} tune_wire_load_t;

typedef struct tune_wires {
  topo_fabric_t *fabric;
  topo_wire_t *wires;      /* [topo_fabric_wire_count] */
  tune_wire_load_t *loads; /* [topo_fabric_wire_count] */
} tune_wires_t;

/* The caller calls tune_wires_close, also on failure. COLL_ERROR_MEMORY. */
coll_status_t tune_wires_open(tune_wires_t *wires, topo_fabric_t *fabric);
void tune_wires_close(tune_wires_t *wires);

/* Sends bytes from one rank's node to another's at time `now_ps`. *arrival_ps: when the wire that
 * is longest in use has carried them, plus the latencies of the path (cut-through routing).
 * Without wires, because the ranks share a node, *arrival_ps is now_ps and *by_wire false. */
coll_status_t tune_wires_send(tune_wires_t *wires, int32_t from, int32_t to, uint64_t bytes,
                              uint64_t now_ps, uint64_t *arrival_ps, bool *by_wire);

/* Counts bytes on one wire, without a time; returns how long the wire needs for them. */
uint64_t tune_wires_add(tune_wires_t *wires, int32_t wire, uint64_t bytes);

/* The wire that was busy for longest, the first of several. */
tune_bottleneck_t tune_wires_bottleneck(const tune_wires_t *wires);

#endif
