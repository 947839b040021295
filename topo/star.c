/* Ranks are the nodes of their hosts. */
#include "topo/star.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"

/* Half of the time that a small message over TCP is on its way; Ethernet of 10 Gb/s. */
#define ASSUMED ((topo_star_link_t){.latency_us = 10.0, .gigabytes_per_s = 1.25})
#define ASSUMED_INSIDE ((topo_star_link_t){.latency_us = 2.0, .gigabytes_per_s = 4.0})

topo_star_link_t topo_star_assume(double gigabytes_per_s, bool is_one_machine) {
  topo_star_link_t link = is_one_machine ? ASSUMED_INSIDE : ASSUMED;
  if (gigabytes_per_s > 0) link.gigabytes_per_s = gigabytes_per_s;
  return link;
}

static coll_status_t add_host(topo_graph_t *graph, int32_t hub, int32_t rank,
                              const topo_star_link_t *star_link, int32_t *node) {
  char name[32];
  snprintf(name, sizeof name, "host-of-rank-%d", rank);
  COLL_TRY(topo_graph_add_node(graph, TOPO_HOST, TOPO_NONE, name, node));
  const topo_link_t link = {.a = *node,
                            .b = hub,
                            .link_class = TOPO_CLASS_ETHERNET,
                            .count = 1,
                            .gigabytes_per_s = star_link->gigabytes_per_s,
                            .latency_us = star_link->latency_us};
  return topo_graph_add_link(graph, &link);
}

static coll_status_t add_hosts(topo_graph_t *graph, int32_t size, const int32_t host_of[],
                               const topo_star_link_t links[], int32_t node_of[]) {
  int32_t hub;
  COLL_TRY(topo_graph_add_node(graph, TOPO_SWITCH, TOPO_NONE, "network", &hub));
  for (int32_t rank = 0; rank < size; rank++) {
    if (host_of[rank] == rank) {
      COLL_TRY(add_host(graph, hub, rank, &links[rank], &node_of[rank]));
    } else {
      node_of[rank] = node_of[host_of[rank]];
    }
  }
  return COLL_OK;
}

coll_status_t topo_star_fabric(int32_t size, const int32_t host_of[],
                               const topo_star_link_t links[], topo_fabric_t **fabric) {
  topo_graph_t *graph;
  int32_t *node_of;
  COLL_TRY(base_alloc((size_t)size, sizeof *node_of, "nodes of ranks", (void **)&node_of));
  coll_status_t status = topo_graph_create("hosts", &graph);
  if (status != COLL_OK) goto free_nodes;
  status = add_hosts(graph, size, host_of, links, node_of);
  if (status == COLL_OK) {
    status = topo_fabric_create(graph, size, node_of, fabric);
  } else {
    topo_graph_free(graph);
  }
free_nodes:
  free(node_of);
  return status;
}
