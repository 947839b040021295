/* Builds the plan of each map, and adds up its transfers along the paths of the links. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "algo/algo.h"
#include "base/alloc.h"
#include "base/names.h"
#include "base/tool.h"
#include "plan/transfers.h"
#include "tools/colltopo/colltopo.h"
#include "tools/colltopo/traffic.h"
#include "topo/fabric.h"

static const char neighbours[] = "neighbours";

typedef struct counter {
  topo_fabric_t *fabric;
  int64_t *chunks; /* by wire */
} counter_t;

bool traffic_is_neighbours(const char *collective) {
  return strcmp(collective, neighbours) == 0;
}

static coll_status_t count(void *context, const plan_transfer_t *transfer) {
  const counter_t *counter = context;
  const int32_t *wires;
  int32_t hops;
  COLL_TRY(topo_fabric_path(counter->fabric, transfer->from, transfer->to, &wires, &hops));
  for (int32_t i = 0; i < hops; i++) counter->chunks[wires[i]] += transfer->chunks;
  return COLL_OK;
}

/* ---- patterns -------------------------------------------------------------------------------*/

static coll_status_t exchange(counter_t *counter, int32_t a, int32_t b) {
  COLL_TRY(count(counter, &(plan_transfer_t){.by = a, .from = a, .to = b, .chunks = 1}));
  return count(counter, &(plan_transfer_t){.by = b, .from = b, .to = a, .chunks = 1});
}

static coll_status_t count_neighbours(counter_t *counter, int32_t size) {
  int32_t rows, columns;
  topo_map_extents(size, &rows, &columns);
  for (int32_t rank = 0; rank < size; rank++) {
    if ((rank + 1) % columns != 0) COLL_TRY(exchange(counter, rank, rank + 1));
    if (rank + columns < size) COLL_TRY(exchange(counter, rank, rank + columns));
  }
  return COLL_OK;
}

/* *chunks: of the largest buffer. */
static coll_status_t count_plan(counter_t *counter, const algo_t *algo, const topo_layout_t *layout,
                                int32_t *chunks) {
  const plan_shape_t shape = {
      .collective = algo->collective, .size = layout->size, .layout = layout};
  bool legal;
  plan_t *plan;
  COLL_TRY(algo_is_legal(algo, &shape, &legal));
  if (!legal) {
    return base_fail(COLL_ERROR_INVALID,
                     "%s by %s maps memory of other ranks, and they are on several hosts; choose "
                     "an algorithm that sends messages (collplan list: reach 'own')",
                     base_collective_name(algo->collective), algo->name);
  }
  COLL_TRY(algo_build(algo, &shape, ALGO_ALL_RANKS, false, &plan));
  *chunks = plan_chunks_max(plan);
  coll_status_t status = plan_visit_transfers(plan, count, counter);
  plan_free(plan);
  return status;
}

/* ---- sums -----------------------------------------------------------------------------------*/

static void add_up(const counter_t *counter, double chunk_bytes, traffic_bytes_t bytes[]) {
  for (int32_t wire = 0; wire < topo_fabric_wire_count(counter->fabric); wire++) {
    traffic_bytes_t *of = &bytes[topo_fabric_wire(counter->fabric, wire).link_class];
    int64_t load = llround((double)counter->chunks[wire] * chunk_bytes);
    of->total += load;
    if (load > of->most) of->most = load;
  }
}

static coll_status_t count_placed(const topo_layout_t *layout, const algo_t *algo, int64_t size,
                                  traffic_bytes_t bytes[]) {
  counter_t counter = {.fabric = layout->fabric};
  if (counter.fabric == NULL) {
    return base_tool_input(
        base_fail(COLL_ERROR_INVALID,
                  "all ranks are on one host without GPUs, between which there are no links; "
                  "give a file with several hosts or with GPUs"));
  }
  COLL_TRY(base_alloc((size_t)topo_fabric_wire_count(counter.fabric) + 1, sizeof *counter.chunks,
                      "traffic", (void **)&counter.chunks));
  int32_t chunks = 1;
  coll_status_t status = algo == NULL ? count_neighbours(&counter, layout->size)
                                      : count_plan(&counter, algo, layout, &chunks);
  if (status == COLL_OK && chunks > 0) add_up(&counter, (double)size / chunks, bytes);
  free(counter.chunks);
  return status;
}

static coll_status_t count_mapped(traffic_t *traffic, const topo_graph_t *graph, int64_t ranks,
                                  topo_map_t map, const algo_t *algo, traffic_bytes_t bytes[]) {
  topo_graph_t *copy;
  topo_placement_t placement;
  COLL_TRY(topo_graph_copy(graph, &copy));
  COLL_TRY(colltopo_place(copy, ranks, map, &placement));
  traffic->ranks = placement.layout->size;
  traffic->hosts = placement.layout->levels > 0 ? placement.layout->level[0].groups : 1;
  coll_status_t status = count_placed(placement.layout, algo, traffic->size, bytes);
  topo_placement_free(&placement);
  return status;
}

static coll_status_t find_algo(const char *name, const char *algorithm, const algo_t **algo) {
  coll_collective_t collective;
  *algo = NULL;
  if (traffic_is_neighbours(name)) return COLL_OK;
  COLL_TRY(base_collective_find(name, &collective));
  if (algorithm != NULL) return algo_find(collective, algorithm, algo);
  *algo = algo_at(collective, 0);
  if (*algo != NULL) return COLL_OK;
  return base_fail(COLL_ERROR_INVALID, "--collective %s has no algorithms", name);
}

coll_status_t traffic_add(traffic_t *traffic, const topo_graph_t *graph, int64_t ranks,
                          const char *collective, const char *algorithm) {
  const algo_t *algo;
  COLL_TRY(find_algo(collective, algorithm, &algo));
  traffic_pattern_t pattern = {.collective = collective,
                               .algorithm = algo != NULL ? algo->name : ""};
  for (int map = 0; map < TOPO_MAP_COUNT; map++) {
    COLL_TRY(count_mapped(traffic, graph, ranks, (topo_map_t)map, algo, pattern.bytes[map]));
    for (int c = 0; c < TOPO_CLASS_COUNT; c++) {
      if (pattern.bytes[map][c].total > 0) traffic->is_used[c] = true;
    }
  }
  traffic->patterns[traffic->count++] = pattern;
  return COLL_OK;
}
