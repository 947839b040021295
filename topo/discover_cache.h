/*
 * The graph of this machine, cached in the user's cache folder (base/cache_file.h): discovery takes
 * tens of milliseconds, and seconds where a GPU's driver has to start. An entry holds while the
 * machine has not been rebooted and has the same PCI functions, network devices and online cpus
 * (topo/sysfs.h); it does not follow a link whose speed changes meanwhile.
 */
#ifndef TOPO_DISCOVER_CACHE_H
#define TOPO_DISCOVER_CACHE_H

#include "topo/graph.h"

/* *graph: from the cache, else by topo_discover, and then it is cached. *was_cached says which. The
 * caller frees *graph. COLL_ERROR_SYSTEM as topo_discover. */
coll_status_t topo_discover_cached(topo_graph_t **graph, bool *was_cached);

/* "1 host, 2 packages, 64 cores": what a graph contains. Returns `text`. */
#define TOPO_SUMMARY_BYTES 256
const char *topo_graph_summary(const topo_graph_t *graph, char text[TOPO_SUMMARY_BYTES]);

#endif
