/* colltopo record: the machine it runs on. */
#include <stdio.h>

#include "tools/colltopo/colltopo.h"
#include "topo/discover.h"
#include "topo/json.h"

static coll_status_t write_graph(const topo_graph_t *graph, const char *file_name) {
  FILE *out = file_name != NULL ? fopen(file_name, "we") : stdout;
  if (out == NULL) return base_fail_errno(COLL_ERROR_SYSTEM, "cannot write %s", file_name);
  coll_status_t status = topo_graph_write(graph, out);
  if (file_name != NULL && fclose(out) != 0 && status == COLL_OK) {
    status = base_fail_errno(COLL_ERROR_SYSTEM, "cannot write %s", file_name);
  }
  return status;
}

int colltopo_record(int argc, char **argv) {
  const char *file_name = NULL;
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
  int code;
  if (!colltopo_begin(&command, argc, argv, NULL, 0, &code)) return code;
  topo_graph_t *graph = NULL;
  coll_status_t status = topo_discover(&graph);
  if (status == COLL_OK) status = write_graph(graph, file_name);
  return colltopo_close(graph, status);
}
