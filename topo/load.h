/*
 * Topologies in the formats of several programs: JSON (topo/json.h), XML of NCCL and RCCL
 * (topo/nccl_xml.h), XML of hwloc (topo/hwloc_graph.h). All commands and variables that take a
 * topology read it here, so that each takes every format.
 */
#ifndef TOPO_LOAD_H
#define TOPO_LOAD_H

#include <stdio.h>

#include "topo/graph.h"

typedef enum topo_format {
  TOPO_FORMAT_JSON,
  TOPO_FORMAT_NCCL,
  TOPO_FORMAT_RCCL,
  TOPO_FORMAT_HWLOC,
  TOPO_FORMAT_ANY, /* of input: recognised by its content */
} topo_format_t;

/* Reads the graph in a file. What the reader leaves out or takes for something else is written to
 * `warnings` (NULL: nowhere), a line each with file and line. The caller frees *graph.
 * COLL_ERROR_INVALID: the file cannot be opened, or the message names file and line.
 * COLL_ERROR_UNSUPPORTED: built without the package that reads the format. */
coll_status_t topo_load(const char *file_name, topo_format_t format, FILE *warnings,
                        topo_graph_t **graph);

/* The same of all that a stream contains. */
coll_status_t topo_load_stream(FILE *in, const char *name, topo_format_t format, FILE *warnings,
                               topo_graph_t **graph);

/* The format of a text by its first character or element. TOPO_FORMAT_ANY: it is neither XML nor
 * JSON. */
topo_format_t topo_format_of(const char *text, size_t bytes);

#endif
