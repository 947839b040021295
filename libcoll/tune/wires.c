/* Times of wires. */
#include "tune/wires.h"

#include <stdlib.h>

#include "base/alloc.h"

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

uint64_t tune_wires_add(tune_wires_t *wires, int32_t wire, uint64_t bytes) {
  tune_wire_load_t *load = &wires->loads[wire];
  uint64_t takes_ps = topo_wire_ps(&wires->wires[wire], bytes);
  load->busy_ps += takes_ps;
  load->bytes += bytes;
  return takes_ps;
}

coll_status_t tune_wires_send(tune_wires_t *wires, int32_t from, int32_t to, uint64_t bytes,
                              uint64_t now_ps, uint64_t *arrival_ps, bool *by_wire) {
  const int32_t *path;
  int32_t count;
  COLL_TRY(topo_fabric_path(wires->fabric, from, to, &path, &count));
  uint64_t last_ps = now_ps, latency_ps = 0;
  for (int32_t i = 0; i < count; i++) {
    uint64_t *free_ps = &wires->loads[path[i]].free_ps;
    if (*free_ps < now_ps) *free_ps = now_ps;
    *free_ps += tune_wires_add(wires, path[i], bytes);
    if (*free_ps > last_ps) last_ps = *free_ps;
    latency_ps += wires->wires[path[i]].latency_ps;
  }
  *arrival_ps = last_ps + latency_ps;
  *by_wire = count > 0;
  return COLL_OK;
}

tune_bottleneck_t tune_wires_bottleneck(const tune_wires_t *wires) {
  tune_bottleneck_t bottleneck = {.wire = -1};
  for (int32_t i = 0; i < topo_fabric_wire_count(wires->fabric); i++) {
    const tune_wire_load_t *load = &wires->loads[i];
    if (load->busy_ps <= bottleneck.busy_ps) continue;
    bottleneck = (tune_bottleneck_t){.wire = i, .bytes = load->bytes, .busy_ps = load->busy_ps};
  }
  return bottleneck;
}
