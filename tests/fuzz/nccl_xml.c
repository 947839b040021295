/* Topology files of NCCL and RCCL. */
#include "topo/nccl_xml.h"

#include "fuzz.h"
#include "graph_uses.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
  topo_graph_t *graph;
  if (topo_graph_from_nccl_xml((const char *)data, bytes, "input", NULL, &graph) != COLL_OK)
    return 0;
  fuzz_graph_uses(graph);
  topo_graph_free(graph);
  return 0;
}
