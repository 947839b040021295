/*
 * hwloc's XML. A child process reads it, in which hwloc may crash, but no sanitizer may find an
 * error of ours; libFuzzer sees the code that only the parent runs.
 */
#include "fuzz.h"
#include "graph_uses.h"
#include "topo/hwloc_graph.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
  topo_graph_t *graph;
  coll_status_t status =
      topo_graph_from_hwloc_xml((const char *)data, bytes, "input", NULL, &graph);
  fuzz_require(status != COLL_ERROR_INTERNAL, "the child ends with a status or a signal");
  if (status != COLL_OK) return 0;
  fuzz_graph_uses(graph);
  topo_graph_free(graph);
  return 0;
}
