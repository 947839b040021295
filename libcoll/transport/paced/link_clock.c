/* The same rule as the cost model's (tune/wires.h), on real clocks. */
#include "transport/paced/link_clock.h"

#define PS_PER_NS 1000

/* Returns when the wire has carried it. relaxed: the time is the only datum. */
static uint64_t claim_wire(paced_wire_t *free_ns, uint64_t now_ns, uint64_t takes_ns) {
  uint64_t free_at = atomic_load_explicit(free_ns, memory_order_relaxed), end_ns;
  do {
    end_ns = (free_at > now_ns ? free_at : now_ns) + takes_ns;
  } while (!atomic_compare_exchange_weak_explicit(free_ns, &free_at, end_ns, memory_order_relaxed,
                                                  memory_order_relaxed));
  return end_ns;
}

uint64_t paced_claim(paced_wire_t free_ns[], const topo_fabric_t *fabric, const int32_t wires[],
                     int32_t count, uint64_t bytes, uint64_t now_ns) {
  uint64_t last_ns = now_ns, latency_ps = 0;
  for (int32_t i = 0; i < count; i++) {
    const topo_wire_t wire = topo_fabric_wire(fabric, wires[i]);
    uint64_t end_ns =
        claim_wire(&free_ns[wires[i]], now_ns, topo_wire_ps(&wire, bytes) / PS_PER_NS);
    if (end_ns > last_ns) last_ns = end_ns;
    latency_ps += wire.latency_ps;
  }
  return last_ns + latency_ps / PS_PER_NS;
}
