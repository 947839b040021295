/*
 * The links between hosts of which nothing is known but how each is connected: every host is linked
 * to one switch, as to a network that is nowhere narrower or longer than at its ends.
 */
#ifndef TOPO_STAR_H
#define TOPO_STAR_H

#include "topo/fabric.h"

/* The link of a host to the switch, in each direction. The way between two hosts takes those of
 * both. */
typedef struct topo_star_link {
  double latency_us, gigabytes_per_s;
} topo_star_link_t;

/* What is assumed of a link that was not measured. gigabytes_per_s: as the host's interface states
 * it; 0: not known. is_one_machine: all hosts are containers of one machine, where data are only
 * copied. */
topo_star_link_t topo_star_assume(double gigabytes_per_s, bool is_one_machine);

/* host_of[size]: the lowest rank of the rank's host. links[size]: of that host. Owned by the
 * caller: topo_fabric_free. COLL_ERROR_MEMORY. */
coll_status_t topo_star_fabric(int32_t size, const int32_t host_of[],
                               const topo_star_link_t links[], topo_fabric_t **fabric);

#endif
