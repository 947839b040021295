/*
 * What is done with a graph that a parser of another program's format has accepted.
 */
#ifndef FUZZ_GRAPH_USES_H
#define FUZZ_GRAPH_USES_H

#include "topo/graph.h"

/* Checks the graph, writes it as JSON and reads that, and writes its only host, where there is one,
 * in the formats of NCCL, RCCL and hwloc. */
void fuzz_graph_uses(const topo_graph_t *graph);

#endif
