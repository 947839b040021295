/* Merges graphs of hosts into one, and finds which ranks share memory where a host is divided. */
#ifndef TOPO_MERGE_H
#define TOPO_MERGE_H

#include <stdbool.h>

#include "topo/graph.h"

/* A graph of one host, with switches outside it, as topo/discover.h makes it. */
typedef struct topo_part {
  const topo_graph_t *graph;
  const char *identity; /* of the host (topo/host.h) */
} topo_part_t;

/* *merged: the hosts of all parts in their order; of parts with equal identities the first. Host
 * number i is called "host<i>", and what it contains "host<i>/...". Nodes outside hosts that have
 * the same name and kind in several parts are one node, and links between these are taken from the
 * first part that has both ends. The caller frees *merged. COLL_ERROR_INVALID: a part has not one
 * host, a name becomes too long, or the result breaks a rule of topo/check.h. */
coll_status_t topo_merge(const topo_part_t parts[], size_t count, topo_graph_t **merged);

/* Whether rank a can really load and store memory of rank b, for example because it could map a
 * segment. */
typedef bool topo_can_share_t(void *context, int32_t a, int32_t b);

/* domain_of[size]: mapping domains for topo_layout_set_domains. In a domain every two ranks can
 * share memory, each with the other. Each rank, in order, joins the first domain where that holds,
 * else begins one; if sharing is transitive, as with containers, these are the fewest domains. Asks
 * at most size^2 times. */
void topo_domains_find(int32_t size, topo_can_share_t *can_share, void *context,
                       int32_t domain_of[]);

#endif
