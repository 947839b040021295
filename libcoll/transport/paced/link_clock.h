/* When what is sent over a path arrives, where ranks of several processes share its links. */
#ifndef TRANSPORT_PACED_LINK_CLOCK_H
#define TRANSPORT_PACED_LINK_CLOCK_H

#include <stdatomic.h>

#include "topo/fabric.h"

/* Shared by all ranks: until when each wire is in use, in ns of the monotonic clock. This is a
 * token bucket without bursts: tokens come at the wire's bandwidth, and a rank that sends takes as
 * many as the message has bytes, in advance if need be, by compare-and-swap. */
typedef _Atomic uint64_t paced_wire_t;

/* Takes the tokens of `bytes` from all wires of the path at time now_ns. Returns the time of
 * arrival: when the last wire has had enough tokens, plus the latencies of the path (cut-through:
 * the wires carry a message at the same time). */
uint64_t paced_claim(paced_wire_t free_ns[], const topo_fabric_t *fabric, const int32_t wires[],
                     int32_t count, uint64_t bytes, uint64_t now_ns);

#endif
