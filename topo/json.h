/*
 * Graphs as JSON. One object with these keys:
 *   "name"   text; may be missing
 *   "grid"   {"extents": [4, 4], "wraps": true}; may be missing: no grid
 *   "nodes"  [{"name": "host0/gpu0", "kind": "gpu", "parent": "host0", "model": "H100"}, ...];
 *            a parent comes before what it contains; "parent" and "model" may be missing
 *   "links"  [{"a": "host0/gpu0", "b": "host0/nvswitch", "class": "nvlink", "count": 18,
 *            "gigabytes_per_s": 25, "latency_us": 0.5}, ...]; "count" may be missing: 1
 * Units and kinds are those of topo/graph.h. In a library that is built without jansson, all of
 * them return COLL_ERROR_UNSUPPORTED.
 */
#ifndef TOPO_JSON_H
#define TOPO_JSON_H

#include <stdio.h>

#include "topo/graph.h"

/* Parses a text and checks the graph (topo_graph_check). The caller frees *graph.
 * COLL_ERROR_INVALID: the message names file, line, what is wrong and what to do. */
coll_status_t topo_graph_parse(const char *text, size_t bytes, const char *file_name,
                               topo_graph_t **graph);

/* The same of the rest of a stream. COLL_ERROR_SYSTEM if it cannot be read. topo/load.h reads files
 * of users. */
coll_status_t topo_graph_read(FILE *in, const char *file_name, topo_graph_t **graph);

/* Writes a graph, one line per node and link; equal graphs give equal bytes. COLL_ERROR_SYSTEM if
 * the stream cannot be written, COLL_ERROR_INVALID if a name is not UTF-8. */
coll_status_t topo_graph_write(const topo_graph_t *graph, FILE *out);

#endif
