/* Steps by which the graph of one host is built of what hwloc or sysfs reports. The top nodes of a
 * host are the packages and NUMA nodes directly in it. */
#ifndef TOPO_HOST_BUILD_H
#define TOPO_HOST_BUILD_H

#include "topo/kinds_build.h"

/* Sets the model of a node; NULL: none. Bytes that JSON or a terminal may not take become '?'. */
void topo_host_set_model(topo_builder_t *b, int32_t node, const char *model);

/* Adds a NUMA node within `around`, a package, the host, or the parent of a NUMA node. */
int32_t topo_host_add_numa(topo_builder_t *b, int32_t host, int32_t around, int number);

/* Links the top nodes with each other. */
void topo_host_link_tops(topo_builder_t *b, int32_t host);

/* Links a core to the node above it and to the `before` cores added last, with which it shares an
 * L3. serves_part: that L3 is of all cores of the node above. */
void topo_host_link_core(topo_builder_t *b, int32_t above, int32_t node, bool serves_part,
                         int32_t before);

/* Where PCI devices are: below a node; below the host, if more than one package is near. */
typedef struct topo_host_place {
  int32_t node;
  double gbs; /* of the slowest link below the node; 0: none is reported */
} topo_host_place_t;

/* The place behind a link of that speed; 0: it is not reported. */
topo_host_place_t topo_host_narrowed(topo_host_place_t at, double gbs);

/* Links a node to what is above it: one node, or all top nodes. */
void topo_host_link_up(topo_builder_t *b, int32_t host, int32_t node, topo_host_place_t at);

/* PCI functions of nodes, TOPO_PCI_NONE for others. */
typedef struct topo_host_addresses {
  int64_t *of;
  size_t count, capacity;
} topo_host_addresses_t;

/* TOPO_PCI_NONE: keeps what was set. */
void topo_host_set_address(topo_builder_t *b, topo_host_addresses_t *addresses, int32_t node,
                           int64_t address);

#endif
