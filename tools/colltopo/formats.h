/* Files of topologies in the formats of several programs. */
#ifndef COLLTOPO_FORMATS_H
#define COLLTOPO_FORMATS_H

#include "topo/graph.h"

typedef enum colltopo_format {
  COLLTOPO_JSON,
  COLLTOPO_NCCL,
  COLLTOPO_RCCL,
  COLLTOPO_HWLOC,
  COLLTOPO_ANY, /* of input: recognised by its content */
} colltopo_format_t;

/* Reads the graph in a file ("-": standard input). The caller frees *graph. COLL_ERROR_INVALID: the
 * message names file and line. */
coll_status_t colltopo_load_format(const char *file_name, colltopo_format_t format,
                                   topo_graph_t **graph);

/* The format of a text by its first character or element; COLLTOPO_JSON if it is none of XML. */
colltopo_format_t colltopo_recognise(const char *text, size_t bytes);

#endif
