/*
 * What the network between the hosts of a communicator costs, as its ranks have measured it
 * (calibrate/network.h). The tuner has it as the links of the layout's fabric.
 */
#ifndef COMM_NETWORK_H
#define COMM_NETWORK_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

struct coll_comm;

/* Between two hosts, or between a host and the nearest other one. */
typedef struct comm_network_cost {
  uint64_t hop_ps;     /* from the call that sends a few bytes to the end of the call that receives
                          them; 0: not measured */
  uint64_t send_ps;    /* of that, the call that sends them */
  uint64_t one_way_ps; /* per KiB of a long message */
  uint64_t both_ways_ps; /* the same while one as long goes the other way; at least 1 */
  int64_t measured_s;    /* when, since 1970 */
} comm_network_cost_t;

/* A host, for the ranks that measure. */
typedef struct comm_network_host {
  int rank;            /* its lowest one, which measures */
  uint64_t kernel;     /* topo_host_kernel */
  uint32_t megabits;   /* transport_name_megabits */
  uint32_t rails;      /* transport_name_rails */
  uint32_t containers; /* hosts with its kernel; 0: not counted yet */
} comm_network_host_t;

/* Whether all are containers of one machine. */
static inline bool comm_network_is_one_machine(const comm_network_host_t hosts[], int count) {
  int same = 0;
  while (same < count && hosts[same].kernel == hosts[0].kernel) same++;
  return hosts[0].kernel != 0 && same == count;
}

/* By all ranks, before the program's first call. hosts[count], costs[count]: costs[i] is of
 * hosts[i], the same on all ranks. timeout_ns: the most that a rank waits for others. Fails as a
 * collective does. */
typedef coll_status_t comm_measure_network_t(struct coll_comm *comm,
                                             const comm_network_host_t hosts[], int count,
                                             uint64_t timeout_ns, comm_network_cost_t costs[]);

#endif
