/* The same rule as the cost model's (tune/wires.h), on real clocks. */
#include "transport/paced/link_clock.h"

#define PS_PER_NS 1000

/* relaxed: the time is the only datum. */
static uint64_t claim_wire(paced_wire_t *free_ns, uint64_t from_ns, uint64_t takes_ns) {
  uint64_t free_at = atomic_load_explicit(free_ns, memory_order_relaxed), start_ns;
  do {
    start_ns = free_at > from_ns ? free_at : from_ns;
  } while (!atomic_compare_exchange_weak_explicit(free_ns, &free_at, start_ns + takes_ns,
                                                  memory_order_relaxed, memory_order_relaxed));
  return start_ns;
}

uint64_t paced_claim(paced_wire_t free_ns[], const topo_fabric_t *fabric, const int32_t wires[],
                     int32_t count, uint64_t bytes, uint64_t now_ns) {
  uint64_t head_ns = now_ns, tail_ns = now_ns;
  for (int32_t i = 0; i < count; i++) {
    const topo_wire_t wire = topo_fabric_wire(fabric, wires[i]);
    uint64_t takes_ns = topo_wire_ps(&wire, bytes) / PS_PER_NS;
    head_ns = claim_wire(&free_ns[wires[i]], head_ns, takes_ns);
    if (head_ns + takes_ns > tail_ns) tail_ns = head_ns + takes_ns;
    head_ns += wire.latency_ps / PS_PER_NS;
    tail_ns += wire.latency_ps / PS_PER_NS;
  }
  return tail_ns;
}
