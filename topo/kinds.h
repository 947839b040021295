/* Graphs of known machines and of networks between them. */
#ifndef TOPO_KINDS_H
#define TOPO_KINDS_H

#include "topo/graph.h"

#define TOPO_HOSTS_MAX 4096

/* Name and source of the parameters of kind `index`; NULL past the last. Bandwidths are those of
 * the sources; latencies are typical values, assumed: 0.5 us over NVLink or xGMI, 0.3 us over PCIe,
 * 0.1 us within the processors, 0.6 us between NIC and switch, 0.3 us between switches. */
const char *topo_kind_of_machine(int index, const char **source);

/* Makes `hosts` machines of a kind. The caller frees *graph. The fabric joins their NICs:
 *
 *   "rail"             switch i joins NIC i of all hosts (NVIDIA DGX SuperPOD reference
 *                      architecture, one unit)
 *   "spine-leaf:L,S"   hosts in contiguous blocks on L leaf switches; S spine switches; as much
 *                      bandwidth up as down
 *   "torus:4x4"        hosts are the routers; a link has the bandwidth of all NICs of a host
 *   "mesh:4x4x2"       divided by the directions; a mesh has no links from last to first
 *   NULL or ""         none
 *
 * COLL_ERROR_INVALID: unknown kind or fabric, or extents that do not multiply to the hosts. */
coll_status_t topo_make(const char *kind, int32_t hosts, const char *fabric, topo_graph_t **graph);

#endif
