/* colltopo record: the machine it runs on. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "tools/colltopo/colltopo.h"
#include "topo/discover.h"
#include "topo/json.h"

static int write_graph(const topo_graph_t *graph, const char *file_name) {
  FILE *out = file_name != NULL ? fopen(file_name, "we") : stdout;
  if (out == NULL) {
    fprintf(stderr, "colltopo: cannot write %s: %s\n", file_name, strerror(errno));
    return COLLTOPO_EXIT_USAGE;
  }
  coll_status_t status = topo_graph_write(graph, out);
  if (file_name != NULL && fclose(out) != 0 && status == COLL_OK) {
    status = base_fail_errno(COLL_ERROR_SYSTEM, "cannot write %s", file_name);
  }
  return status == COLL_OK ? 0 : colltopo_fail(COLLTOPO_EXIT_USAGE);
}

int colltopo_record(int argc, char **argv) {
  const char *file_name = NULL;
  bool helped = false;
  const base_option_t options[] = {{0, "out", BASE_OPTION_TEXT, &file_name, "FILE",
                                    "where to write it; standard output without", 0, 0, NULL}};
  const base_command_t command = {
      .name = "colltopo record",
      .usage = "[options]",
      .summary =
          "Prints this machine as JSON: processors, PCI devices and NICs as hwloc and sysfs "
          "report them, NVLinks as the NVIDIA driver does. What these do not report has "
          "typical values: bandwidth of memory and caches, all latencies.",
      .examples =
          "  colltopo record > here.json\n      for colltopo show, draw, paths\n"
          "  colltopo record --out here.json\n      the same\n",
      .options = options,
      .option_count = sizeof options / sizeof options[0]};
  if (colltopo_parse(&command, argc, argv, NULL, 0, &helped) != COLL_OK)
    return colltopo_fail(COLLTOPO_EXIT_USAGE);
  if (helped) return 0;
  topo_graph_t *graph;
  if (topo_discover(&graph) != COLL_OK) return colltopo_fail(COLLTOPO_EXIT_USAGE);
  int code = write_graph(graph, file_name);
  topo_graph_free(graph);
  return code;
}
