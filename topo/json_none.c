/* In place of json.c, in builds without jansson. */
#include "topo/json.h"

static coll_status_t fail(const char *file_name) {
  return base_fail(COLL_ERROR_UNSUPPORTED,
                   "%s: built without jansson, which reads and writes topologies", file_name);
}

coll_status_t topo_graph_parse(const char *text, size_t bytes, const char *file_name,
                               topo_graph_t **graph) {
  (void)text;
  (void)bytes;
  *graph = NULL;
  return fail(file_name);
}

coll_status_t topo_graph_read(FILE *in, const char *file_name, topo_graph_t **graph) {
  (void)in;
  *graph = NULL;
  return fail(file_name);
}

coll_status_t topo_graph_write(const topo_graph_t *graph, FILE *out) {
  (void)out;
  return fail(graph->name);
}
