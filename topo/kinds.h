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
 *   "fat-tree:K"       switches of K ports in three stages, K^3/4 ports for NICs (Al-Fares,
 * Loukissas & Vahdat, A scalable, commodity data center network architecture, 2008)
 *   "dragonfly:P,A,H"  groups of A routers with P NICs and H links to other groups each (Kim,
 * Dally, Scott & Abts, Technology-driven, highly-scalable dragonfly topology, 2008); as many groups
 * as the NICs need, at most A H + 1, and the links of a group divided evenly among the others
 *   "dragonfly"        the smallest with A = 2 P = 2 H
 *   "torus:4x4"        hosts are the routers; a link has the bandwidth of all NICs of a host
 *   "mesh:4x4x2"       divided by the directions; a mesh has no links from last to first
 *   NULL or ""         none
 *
 * COLL_ERROR_INVALID: unknown kind or fabric, extents that do not multiply to the hosts,
 * or a fabric with too few ports. */
coll_status_t topo_make(const char *kind, int32_t hosts, const char *fabric, topo_graph_t **graph);

#endif
