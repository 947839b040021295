/* colltopo check: the rules of a file. */
#include <stdio.h>

#include "tools/colltopo/colltopo.h"

int colltopo_check(int argc, char **argv) {
  bool helped = false;
  const char *file;
  const base_command_t command = {
      .name = "colltopo check",
      .usage = "FILE",
      .summary =
          "Reads a file (-: standard input), ours or XML of NCCL or hwloc, and prints what it "
          "contains, or\nthe line that is wrong and what to do.",
      .examples = "  colltopo check dgx4.json\n      4 hosts, 32 gpus, ...\n"};
  coll_status_t status = colltopo_parse(&command, argc, argv, &file, 1, &helped);
  if (status != COLL_OK) return base_tool_fail("colltopo", status);
  if (helped) return 0;
  topo_graph_t *graph;
  status = colltopo_load(file, TOPO_FORMAT_ANY, &graph);
  if (status != COLL_OK) return base_tool_fail("colltopo", status);
  printf("%s:", file);
  for (int kind = 0; kind < TOPO_KIND_COUNT; kind++) {
    size_t count = topo_graph_count(graph, (topo_kind_t)kind);
    if (count > 0) printf(" %s %zu,", topo_kind_name((topo_kind_t)kind), count);
  }
  printf(" links %zu\n", graph->link_count);
  topo_graph_free(graph);
  return 0;
}
