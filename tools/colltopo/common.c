/* What the commands share. */
#include <stdio.h>
#include <string.h>

#include "tools/colltopo/colltopo.h"

static coll_status_t parse(const base_command_t *command, int argc, char **argv,
                           const char *words[], int count, bool *helped) {
  int found = 0;
  for (int at = 0, first = 0; at < argc;) {
    COLL_TRY(base_options_parse(command, argc - at, argv + at, &first, helped));
    at += first;
    if (*helped || at >= argc) break;
    if (found == count) {
      return base_fail(COLL_ERROR_INVALID, "%s: '%s' is a word too many (%s --help)", command->name,
                       argv[at], command->name);
    }
    words[found++] = argv[at];
  }
  if (*helped || found == count) return COLL_OK;
  return base_fail(COLL_ERROR_INVALID, "usage: %s %s", command->name, command->usage);
}

int colltopo_close(topo_graph_t *graph, coll_status_t status) {
  topo_graph_free(graph);
  return status == COLL_OK ? BASE_EXIT_DONE : base_tool_fail("colltopo", status);
}

bool colltopo_begin(const base_command_t *command, int argc, char **argv, const char *words[],
                    int count, int *code) {
  bool helped = false;
  coll_status_t status = parse(command, argc, argv, words, count, &helped);
  bool goes_on = status == COLL_OK && !helped;
  if (!goes_on) *code = colltopo_close(NULL, status);
  return goes_on;
}

bool colltopo_open(const base_command_t *command, int argc, char **argv, const char *words[],
                   int count, topo_graph_t **graph, int *code) {
  if (!colltopo_begin(command, argc, argv, words, count, code)) return false;
  coll_status_t status = colltopo_load(words[0], TOPO_FORMAT_ANY, graph);
  if (status != COLL_OK) *code = colltopo_close(NULL, status);
  return status == COLL_OK;
}

base_option_t colltopo_map_option(int *map) {
  return (base_option_t){.name = "map",
                         .kind = BASE_OPTION_WORD,
                         .value = map,
                         .value_name = "HOW",
                         .help =
                             "which host a rank is on: by-host (contiguous blocks), by-rail (in "
                             "turn) or grid (tiles of a process grid)",
                         .words = topo_map_words};
}

coll_status_t colltopo_load(const char *file_name, topo_format_t format, topo_graph_t **graph) {
  bool is_stdin = strcmp(file_name, "-") == 0;
  return base_tool_input(is_stdin ? topo_load_stream(stdin, "standard input", format, stderr, graph)
                                  : topo_load(file_name, format, stderr, graph));
}

coll_status_t colltopo_place(topo_graph_t *graph, int64_t ranks, topo_map_t map,
                             topo_placement_t *placement) {
  size_t gpus = topo_graph_count(graph, TOPO_GPU), hosts = topo_graph_count(graph, TOPO_HOST);
  if (ranks == 0) ranks = (int64_t)(gpus > 0 ? gpus : hosts);
  coll_status_t status = topo_place_mapped(graph, (int32_t)ranks, map, placement);
  if (status != COLL_OK) {
    topo_graph_free(graph);
    return status;
  }
  status = topo_placement_add_fabric(placement, graph);
  if (status == COLL_OK && placement->layout->fabric == NULL &&
      !topo_layout_is_mapped(placement->layout)) {
    status = base_fail(COLL_ERROR_INVALID,
                       "no links connect all ranks; add the network between the hosts");
  }
  if (status != COLL_OK) topo_placement_free(placement);
  return status;
}
