/* Makes the layout that the library makes of the file, or of cores that ranks are bound to. */
#include "tools/collrun/layout.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/knob.h"
#include "topo/discover_cache.h"
#include "topo/home.h"
#include "topo/load.h"
#include "topo/place.h"
#include "topo/sysfs.h"

static const base_knob_t file_knob = {
    .name = "COLL_TOPO_FILE", .kind = BASE_KNOB_TEXT, .fallback = ""};

static coll_status_t print_file(const char *file_name, int ranks, topo_map_t map) {
  topo_graph_t *graph;
  topo_placement_t placement;
  COLL_TRY(topo_load(file_name, TOPO_FORMAT_ANY, stderr, &graph));
  coll_status_t status = topo_place_mapped(graph, ranks, map, &placement);
  if (status == COLL_OK) {
    topo_layout_print(placement.layout, stdout);
    topo_placement_free(&placement);
  }
  topo_graph_free(graph);
  return status;
}

static topo_home_t home_of(int rank, int ranks, const topo_machine_t *machine) {
  if (machine != NULL) {
    int cores = topo_machine_facts(machine).cores;
    (void)topo_machine_bind(machine, topo_share_of(cores, rank, ranks));
  }
  const topo_cpus_t cpus = topo_cpus_own();
  return topo_home_of(TOPO_SYSFS, &cpus);
}

static coll_status_t print_homes(int ranks, const topo_machine_t *machine) {
  topo_home_t *homes;
  topo_layout_t *layout;
  COLL_TRY(base_alloc((size_t)ranks, sizeof *homes, "homes of ranks", (void **)&homes));
  for (int rank = 0; rank < ranks; rank++) homes[rank] = home_of(rank, ranks, machine);
  coll_status_t status = topo_home_layout(homes, ranks, &layout);
  free(homes);
  if (status == COLL_OK && layout == NULL) status = topo_layout_create(ranks, &layout);
  if (status == COLL_OK) topo_layout_print(layout, stdout);
  topo_layout_free(layout);
  return status;
}

static coll_status_t print_machine(void) {
  topo_graph_t *graph;
  bool was_cached;
  char text[TOPO_SUMMARY_BYTES];
  COLL_TRY(topo_discover_cached(&graph, &was_cached));
  printf("this machine (%s): %s\n", was_cached ? "cached" : "discovered",
         topo_graph_summary(graph, text));
  topo_graph_free(graph);
  return COLL_OK;
}

coll_status_t collrun_layout_print(int ranks, topo_map_t map, const topo_machine_t *machine) {
  const char *file_name;
  COLL_TRY(base_knob_text(&file_knob, &file_name));
  if (file_name[0] != '\0') return print_file(file_name, ranks, map);
  COLL_TRY(print_machine());
  return print_homes(ranks, machine);
}
