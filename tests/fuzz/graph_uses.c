/* A format that cannot express a graph may refuse it, but what it writes must be readable. */
#include "graph_uses.h"

#include <stdlib.h>

#include "fuzz.h"
#include "topo/check.h"
#include "topo/hwloc_graph.h"
#include "topo/hwloc_xml.h"
#include "topo/json.h"
#include "topo/nccl_xml.h"

static void write_json(const topo_graph_t *graph) {
  fuzz_text_t text;
  topo_graph_t *copy;
  fuzz_text_begin(&text);
  fuzz_require(topo_graph_write(graph, text.out) == COLL_OK, "an accepted graph can be written");
  fuzz_text_end(&text);
  fuzz_require(topo_graph_parse(text.text, text.bytes, "again", &copy) == COLL_OK,
               "a written graph is accepted");
  topo_graph_free(copy);
  free(text.text);
}

static void write_nccl(const topo_graph_t *graph, topo_nccl_dialect_t dialect) {
  fuzz_text_t text, warnings;
  topo_graph_t *copy;
  fuzz_text_begin(&text);
  fuzz_text_begin(&warnings);
  coll_status_t status = topo_graph_to_nccl_xml(graph, NULL, dialect, text.out, warnings.out);
  fuzz_text_end(&text);
  fuzz_text_end(&warnings);
  if (status == COLL_OK) {
    fuzz_require(topo_graph_from_nccl_xml(text.text, text.bytes, "again", NULL, &copy) == COLL_OK,
                 "NCCL's XML, as written, is accepted");
    topo_graph_free(copy);
  }
  free(text.text);
  free(warnings.text);
}

static void write_hwloc(const topo_graph_t *graph) {
  fuzz_text_t text, warnings;
  topo_graph_t *copy;
  fuzz_text_begin(&text);
  fuzz_text_begin(&warnings);
  coll_status_t status = topo_graph_to_hwloc_xml(graph, NULL, text.out, warnings.out);
  fuzz_text_end(&text);
  fuzz_text_end(&warnings);
  if (status == COLL_OK) {
    fuzz_require(topo_graph_from_hwloc_xml(text.text, text.bytes, "again", NULL, &copy) == COLL_OK,
                 "hwloc's XML, as written, is accepted");
    topo_graph_free(copy);
  }
  free(text.text);
  free(warnings.text);
}

void fuzz_graph_uses(const topo_graph_t *graph) {
  fuzz_require(topo_graph_check(graph, NULL) == COLL_OK, "an accepted graph passes the check");
  write_json(graph);
  write_nccl(graph, TOPO_NCCL_NVIDIA);
  write_nccl(graph, TOPO_NCCL_AMD);
  write_hwloc(graph);
}
