/* In place of nccl_xml_read.c, in builds without expat. */
#include "topo/nccl_xml.h"

coll_status_t topo_graph_from_nccl_xml(const char *text, size_t bytes, const char *file_name,
                                       FILE *warnings, topo_graph_t **graph) {
  (void)text;
  (void)bytes;
  (void)warnings;
  *graph = NULL;
  return base_fail(COLL_ERROR_UNSUPPORTED,
                   "%s: built without expat, which reads topologies of NCCL", file_name);
}
