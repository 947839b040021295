/* In place of hwloc_xml_read.c, in builds without hwloc. */
#include "topo/hwloc_graph.h"

coll_status_t topo_graph_from_hwloc_xml(const char *text, size_t bytes, const char *file_name,
                                        FILE *warnings, topo_graph_t **graph) {
  (void)text;
  (void)bytes;
  (void)warnings;
  *graph = NULL;
  return base_fail(COLL_ERROR_UNSUPPORTED, "%s: built without hwloc, which reads this format",
                   file_name);
}
