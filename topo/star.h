/*
 * The links between hosts of which nothing is known but how fast each is connected: every host is
 * linked to one switch, as to a network that is nowhere narrower than at its ends.
 */
#ifndef TOPO_STAR_H
#define TOPO_STAR_H

#include "topo/fabric.h"

/* Assumed of a link between a host and the switch: half of the time that a small message over TCP
 * is on its way. */
#define TOPO_STAR_LATENCY_US 10.0
/* Assumed of hosts that do not say: Ethernet of 10 Gb/s. */
#define TOPO_STAR_GIGABYTES_PER_S 1.25

/* The same if all hosts are containers of one machine, where data are only copied. */
#define TOPO_STAR_INSIDE_LATENCY_US 2.0
#define TOPO_STAR_INSIDE_GIGABYTES_PER_S 4.0

/* host_of[size]: the lowest rank of the rank's host. gigabytes_per_s[size]: of that host's link in
 * each direction; 0: not known. Owned by the caller: topo_fabric_free. COLL_ERROR_MEMORY. */
coll_status_t topo_star_fabric(int32_t size, const int32_t host_of[],
                               const double gigabytes_per_s[], bool is_one_machine,
                               topo_fabric_t **fabric);

#endif
