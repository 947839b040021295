/* Times of wires. */
#include "tune/wires.h"

#include <stdlib.h>

#include "base/memory.h"

coll_status_t tune_wires_open(tune_wires_t *wires, topo_fabric_t *fabric) {
  size_t count = (size_t)topo_fabric_wire_count(fabric);
  *wires = (tune_wires_t){.fabric = fabric};
  COLL_TRY(base_alloc(count + 1, sizeof *wires->wires, "wires", (void **)&wires->wires));
  COLL_TRY(base_alloc(count + 1, sizeof *wires->loads, "wires", (void **)&wires->loads));
  for (size_t i = 0; i < count; i++) wires->wires[i] = topo_fabric_wire(fabric, (int32_t)i);
  return COLL_OK;
}

void tune_wires_close(tune_wires_t *wires) {
  free(wires->wires);
  free(wires->loads);
}

coll_status_t tune_wires_send(tune_wires_t *wires, int32_t from, int32_t to, uint64_t bytes,
                              uint64_t now_ps, uint64_t *arrival_ps, bool *by_wire) {
  const int32_t *route;
  int32_t count;
  COLL_TRY(topo_fabric_route(wires->fabric, from, to, &route, &count));
  uint64_t head_ps = now_ps, tail_ps = now_ps;
  for (int32_t i = 0; i < count; i++) {
    const topo_wire_t *wire = &wires->wires[route[i]];
    tune_wire_load_t *load = &wires->loads[route[i]];
    uint64_t takes_ps = bytes / 1024 * wire->kib_ps + bytes % 1024 * wire->kib_ps / 1024;
    if (load->free_ps > head_ps) head_ps = load->free_ps;
    load->free_ps = head_ps + takes_ps;
    load->busy_ps += takes_ps;
    load->bytes += bytes;
    if (load->free_ps > tail_ps) tail_ps = load->free_ps;
    head_ps += wire->latency_ps;
    tail_ps += wire->latency_ps;
  }
  *arrival_ps = tail_ps;
  *by_wire = count > 0;
  return COLL_OK;
}

int32_t tune_wires_busiest(const tune_wires_t *wires) {
  int32_t busiest = -1;
  uint64_t longest_ps = 0;
  for (int32_t i = 0; i < topo_fabric_wire_count(wires->fabric); i++) {
    if (wires->loads[i].busy_ps <= longest_ps) continue;
    longest_ps = wires->loads[i].busy_ps;
    busiest = i;
  }
  return busiest;
}
