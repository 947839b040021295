/* When what is sent over a route arrives, where ranks of several processes share its links. */
#ifndef TRANSPORT_PACED_LINK_CLOCK_H
#define TRANSPORT_PACED_LINK_CLOCK_H

#include <stdatomic.h>

#include "topo/fabric.h"

/* Shared by all ranks: until when each wire is in use, in ns of the monotonic clock. Every rank
 * writes it: a rank that sends claims the next free time of a wire by compare-and-swap. */
typedef _Atomic uint64_t paced_wire_t;

/* Claims the wires of the route for `bytes` at time now_ns. Returns the time of arrival: a wire
 * begins as soon as the first byte reaches it (cut-through). */
uint64_t paced_claim(paced_wire_t free_ns[], const topo_fabric_t *fabric, const int32_t wires[],
                     int32_t count, uint64_t bytes, uint64_t now_ns);

#endif
