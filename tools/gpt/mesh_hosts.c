/* Where ranks are, from a file of colltopo or from the ranks themselves. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/knob.h"
#include "base/text.h"
#include "tools/gpt/mesh_options.h"
#include "topo/load.h"
#include "topo/place.h"

static const base_knob_t topology_knob = {
    .name = "COLL_TOPO_FILE", .kind = BASE_KNOB_TEXT, .fallback = ""};
static const base_knob_t map_knob = {
    .name = "COLL_TOPO_MAP", .kind = BASE_KNOB_TEXT, .fallback = ""};

static coll_status_t find_map(const char *word, topo_map_t *map) {
  *map = TOPO_MAP_BY_HOST;
  if (word == NULL || word[0] == '\0') return COLL_OK;
  for (int i = 0; i < TOPO_MAP_COUNT; i++) {
    if (strcmp(word, topo_map_words[i]) == 0) *map = (topo_map_t)i;
  }
  if (strcmp(word, topo_map_words[*map]) == 0) return COLL_OK;
  return base_fail(COLL_ERROR_INVALID, "'%s' is no map of ranks to hosts; did you mean '%s'?", word,
                   base_text_nearest(word, topo_map_words, TOPO_MAP_COUNT));
}

/* Takes hosts and their names over from where the graph has the ranks. */
static coll_status_t take_over(const topo_graph_t *graph, const topo_placement_t *from, int ranks,
                               train_placement_t *placement) {
  int *host_of;
  COLL_TRY(base_alloc((size_t)ranks, sizeof *host_of, "hosts of ranks", (void **)&host_of));
  for (int rank = 0; rank < ranks; rank++) host_of[rank] = from->host_of[rank];
  coll_status_t status = train_placement_init(ranks, host_of, placement);
  for (int rank = 0; status == COLL_OK && rank < ranks; rank++) {
    snprintf(placement->host_names[placement->host_of[rank]], TRAIN_HOST_NAME_BYTES, "%s",
             graph->nodes[host_of[rank]].name);
  }
  free(host_of);
  return status;
}

coll_status_t gpt_mesh_place_on(const char *topology, const char *map, int ranks, FILE *warnings,
                                train_placement_t *placement) {
  topo_graph_t *graph;
  topo_placement_t from;
  topo_map_t found;
  COLL_TRY(find_map(map, &found));
  COLL_TRY(topo_load(topology, TOPO_FORMAT_ANY, warnings, &graph));
  coll_status_t status = topo_place_mapped(graph, ranks, found, &from);
  if (status == COLL_OK) {
    status = take_over(graph, &from, ranks, placement);
    topo_placement_free(&from);
  }
  topo_graph_free(graph);
  return status;
}

coll_status_t gpt_mesh_place(const train_group_t *group, train_placement_t *placement) {
  const char *topology, *map;
  COLL_TRY(base_knob_text(&topology_knob, &topology));
  if (topology[0] == '\0') return train_placement_discover(group, placement);
  coll_status_t status = base_knob_text(&map_knob, &map);
  /* libcoll, which reads the file too, has said what it leaves out */
  if (status == COLL_OK) status = gpt_mesh_place_on(topology, map, group->size, NULL, placement);
  return train_group_agree(group, status);
}
