/* The hosts are the groups of the layout. */
#include "lifetime/network.h"

#include <stdlib.h>

#include "base/alloc.h"

typedef struct network {
  comm_network_host_t *hosts; /* [comm->size], of which `count` are used */
  comm_network_cost_t *costs; /* [comm->size]: of these hosts */
  int count;
} network_t;

/* Groups are numbered by their lowest ranks. */
static void find_hosts(const struct coll_comm *comm, const lifetime_record_t records[],
                       network_t *network) {
  const int32_t *group_of = comm->layout->level[0].group_of;
  for (int rank = 0; rank < comm->size; rank++) {
    if (group_of[rank] < network->count) continue;
    network->hosts[network->count++] =
        (comm_network_host_t){.rank = rank,
                              .kernel = records[rank].kernel,
                              .megabits = transport_name_megabits(&records[rank].name),
                              .rails = transport_name_rails(&records[rank].name)};
  }
}

/* ---- what was measured ----------------------------------------------------------------------*/

/* What a core needs per KiB, sent or received: on one machine for all that is done. Otherwise,
 * bytes that go both ways wait for each other where cores copy them, but not on a link. */
static uint64_t core_ps(const comm_network_cost_t *host, bool is_one_machine) {
  uint64_t half_ps = host->both_ways_ps / 2;
  if (is_one_machine) return half_ps;
  uint64_t more_ps =
      host->both_ways_ps > host->one_way_ps ? host->both_ways_ps - host->one_way_ps : 0;
  return more_ps < half_ps ? more_ps : half_ps;
}

/* The part of it that the tuner has already. */
static uint64_t copy_ps(const tune_machine_t *costs, size_t slot_bytes) {
  return tune_machine_move_ps(costs, TUNE_PUSH, slot_bytes);
}

/* The ends of the shortest hop take no longer than it does. On one machine, they take as long as
 * the call that sends, in which the kernel does all that is left to do for both. */
void lifetime_network_set_ends(tune_machine_t *costs, const comm_network_cost_t hosts[], int count,
                               bool is_one_machine, size_t slot_bytes) {
  uint64_t least_ps = UINT64_MAX;
  uint64_t distant_ps = is_one_machine ? UINT32_MAX : costs->fixed_ps[TUNE_DISTANT];
  for (int i = 0; i < count; i++) {
    if (hosts[i].hop_ps == 0) continue;
    uint64_t each_ps = core_ps(&hosts[i], is_one_machine);
    if (each_ps < least_ps) least_ps = each_ps;
    uint64_t ends_ps = is_one_machine ? hosts[i].send_ps : hosts[i].hop_ps;
    if (ends_ps / 2 < distant_ps) distant_ps = ends_ps / 2;
  }
  if (least_ps == UINT64_MAX) return;
  uint64_t copied_ps = copy_ps(costs, slot_bytes);
  uint64_t cross_ps = least_ps > copied_ps ? least_ps - copied_ps : 0;
  costs->fixed_ps[TUNE_DISTANT] = (uint32_t)distant_ps;
  for (int i = 0; i < TUNE_SIZES; i++) {
    costs->move_ps[TUNE_CROSS][i] = cross_ps < UINT32_MAX ? (uint32_t)cross_ps : UINT32_MAX;
  }
}

topo_star_link_t lifetime_network_link(const tune_machine_t *costs, const comm_network_cost_t *host,
                                       size_t slot_bytes) {
  uint64_t ends_ps = 2 * (uint64_t)costs->fixed_ps[TUNE_DISTANT];
  uint64_t cores_ps = 2 * (costs->move_ps[TUNE_CROSS][0] + copy_ps(costs, slot_bytes));
  uint64_t kib_ps = host->both_ways_ps > cores_ps ? host->both_ways_ps - cores_ps : 1;
  uint64_t way_ps = host->hop_ps > ends_ps ? host->hop_ps - ends_ps : 0;
  return (topo_star_link_t){.latency_us = (double)way_ps * 0.5e-6,
                            .gigabytes_per_s = 1024e3 / (double)kib_ps};
}

/* Hosts that were not measured are taken to be as the slowest. */
static coll_status_t set_links(struct coll_comm *comm, const network_t *network) {
  size_t size = (size_t)comm->size, slot_bytes = comm->world.room.slot_bytes;
  topo_star_link_t *links;
  int32_t *host_of = NULL;
  topo_fabric_t *fabric;
  COLL_TRY(base_alloc(size, sizeof *links, "links of hosts", (void **)&links));
  coll_status_t status = base_alloc(size, sizeof *host_of, "hosts of ranks", (void **)&host_of);
  for (int rank = 0; rank < comm->size && status == COLL_OK; rank++) {
    int host = comm->layout->level[0].group_of[rank];
    const comm_network_cost_t *cost = &network->costs[host];
    if (cost->hop_ps == 0) cost = &comm->network;
    host_of[rank] = network->hosts[host].rank;
    links[rank] = lifetime_network_link(&comm->plans.costs, cost, slot_bytes);
  }
  if (status == COLL_OK) status = topo_star_fabric(comm->size, host_of, links, &fabric);
  if (status == COLL_OK) {
    topo_fabric_free(comm->layout->fabric);
    comm->layout->fabric = fabric;
  }
  free(host_of);
  free(links);
  return status;
}

/* The slowest costs of any host, and the oldest. */
static comm_network_cost_t slowest(const network_t *network) {
  comm_network_cost_t found = {.measured_s = INT64_MAX};
  for (int i = 0; i < network->count; i++) {
    const comm_network_cost_t *cost = &network->costs[i];
    if (cost->hop_ps == 0) continue;
    if (cost->hop_ps > found.hop_ps) {
      found.hop_ps = cost->hop_ps;
      found.send_ps = cost->send_ps;
    }
    if (cost->both_ways_ps > found.both_ways_ps) {
      found.one_way_ps = cost->one_way_ps;
      found.both_ways_ps = cost->both_ways_ps;
    }
    if (cost->measured_s < found.measured_s) found.measured_s = cost->measured_s;
  }
  return found;
}

/* ---- the whole ------------------------------------------------------------------------------*/

static coll_status_t measure(struct coll_comm *comm, const lifetime_record_t records[],
                             const comm_settings_t *settings, network_t *network) {
  size_t size = (size_t)comm->size;
  COLL_TRY(base_alloc(size, sizeof *network->hosts, "hosts", (void **)&network->hosts));
  COLL_TRY(base_alloc(size, sizeof *network->costs, "costs of hosts", (void **)&network->costs));
  find_hosts(comm, records, network);
  COLL_TRY(settings->calibration->network(comm, network->hosts, network->count,
                                          settings->timeout_ns, network->costs));
  comm->network = slowest(network);
  if (comm->network.hop_ps == 0) return COLL_OK;
  lifetime_network_set_ends(&comm->plans.costs, network->costs, network->count,
                            comm_network_is_one_machine(network->hosts, network->count),
                            comm->world.room.slot_bytes);
  return set_links(comm, network);
}

/* Every rank waits for the others, so all must have the time. */
static bool has_time(const lifetime_record_t records[], int size) {
  int rank = 0;
  while (rank < size && records[rank].has_time) rank++;
  return rank == size;
}

coll_status_t lifetime_network_measure(struct coll_comm *comm, const lifetime_record_t records[],
                                       const comm_settings_t *settings) {
  network_t network = {.count = 0};
  bool has_hosts = comm->layout != NULL && comm->layout->fabric != NULL;
  if (!has_hosts || settings->topo_file[0] != '\0' || !records[0].measures) return COLL_OK;
  if (!has_time(records, comm->size)) return COLL_OK;
  coll_status_t status = measure(comm, records, settings, &network);
  free(network.hosts);
  free(network.costs);
  return status;
}
