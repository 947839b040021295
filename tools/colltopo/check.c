/* colltopo check: the rules of a file. */
#include <stdio.h>

#include "tools/colltopo/colltopo.h"

int colltopo_check(int argc, char **argv) {
  const char *file;
  const base_command_t command = {
      .name = "colltopo check",
      .usage = "FILE",
      .summary =
          "Reads a file (-: standard input), ours or XML of NCCL or hwloc, and prints what it "
          "contains, or\nthe line that is wrong and what to do.",
      .examples = "  colltopo check dgx4.json\n      4 hosts, 32 gpus, ...\n"};
  topo_graph_t *graph;
  int code;
  if (!colltopo_open(&command, argc, argv, &file, 1, &graph, &code)) return code;
  printf("%s:", file);
  for (int kind = 0; kind < TOPO_KIND_COUNT; kind++) {
    size_t count = topo_graph_count(graph, (topo_kind_t)kind);
    if (count > 0) printf(" %s %zu,", topo_kind_name((topo_kind_t)kind), count);
  }
  printf(" links %zu\n", graph->link_count);
  return colltopo_close(graph, COLL_OK);
}
