/* The ranks that measure go through the rounds. Then all ranks gather what these have found, over
 * the binary tree that is connected at creation (transport/net/connect). */
#include "calibrate/network.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"

int calibrate_network_rounds(int hosts) {
  int rounds = 0;
  while (1 << rounds < hosts) rounds++;
  return rounds;
}

int calibrate_network_partner(const comm_network_host_t hosts[], int count, int host, int round) {
  int partner = host ^ 1 << round;
  if (partner >= count) return -1;
  bool is_inside = hosts[host].kernel != 0 && hosts[host].kernel == hosts[partner].kernel;
  return is_inside && !comm_network_is_one_machine(hosts, count) ? -1 : partner;
}

bool calibrate_network_is_plausible(const comm_network_cost_t *cost) {
  return cost->one_way_ps > 0 && cost->both_ways_ps > 0 &&
         cost->both_ways_ps <= CALIBRATE_NETWORK_STEADY * cost->one_way_ps &&
         cost->one_way_ps <= CALIBRATE_NETWORK_STEADY * cost->both_ways_ps;
}

typedef struct measuring {
  struct coll_comm *comm;
  const comm_network_host_t *hosts; /* [count] */
  int count;
  comm_network_cost_t *costs; /* [count]: known here; hop_ps is 0 of others */
  uint64_t begin_ns, timeout_ns;
} measuring_t;

/* Waits end after so many of the STEPS of the time limit. Of two ranks, the first of which waits
 * for the second and that for a third, the second gives up first: the error names the third, which
 * is stopped. In a round, ranks wait for those that are in an earlier one; in the tree, for those
 * below, then for those above. There are 12 rounds and levels at most (FLIGHT_RANKS_MAX). */
enum { STEPS = 64, ROUND_STEP = 12, TREE_STEP = 40 };

/* Up to that step. */
static network_link_t link_to(const measuring_t *m, int peer, int step) {
  return calibrate_link_to(m->comm, peer, m->begin_ns + m->timeout_ns / STEPS * (unsigned)step);
}

/* ---- pairs ----------------------------------------------------------------------------------*/

/* *cost: of the pairs that it was taken of so far; hop_ps is 0 if there was none. */
static void take_faster(comm_network_cost_t *cost, const comm_network_cost_t *pair) {
  if (pair->hop_ps == 0) return;
  if (cost->hop_ps == 0) *cost = *pair;
  if (pair->hop_ps < cost->hop_ps) {
    cost->hop_ps = pair->hop_ps;
    cost->send_ps = pair->send_ps;
  }
  if (pair->both_ways_ps < cost->both_ways_ps) {
    cost->one_way_ps = pair->one_way_ps;
    cost->both_ways_ps = pair->both_ways_ps;
  }
  if (pair->measured_s < cost->measured_s) cost->measured_s = pair->measured_s;
}

/* Containers of a machine are measured at once, and share its interfaces. */
static comm_network_host_t counted(const measuring_t *m, int host) {
  comm_network_host_t found = m->hosts[host];
  found.containers = 0;
  for (int i = 0; i < m->count; i++) found.containers += m->hosts[i].kernel == found.kernel;
  return found;
}

static coll_status_t measure_rounds(const measuring_t *m, int host) {
  const comm_network_host_t own = counted(m, host);
  for (int round = 0; round < calibrate_network_rounds(m->count); round++) {
    int partner = calibrate_network_partner(m->hosts, m->count, host, round);
    comm_network_cost_t pair;
    if (partner < 0) continue;
    const comm_network_host_t other = counted(m, partner);
    const network_link_t link = link_to(m, other.rank, ROUND_STEP + round);
    COLL_TRY(calibrate_network_pair(&link, &own, &other, &pair));
    take_faster(&m->costs[host], &pair);
  }
  return COLL_OK;
}

static coll_status_t measure_host(const measuring_t *m) {
  for (int host = 0; host < m->count; host++) {
    if (m->hosts[host].rank != m->comm->rank) continue;
    calibrate_network_begin(m->comm);
    coll_status_t status = measure_rounds(m, host);
    calibrate_network_end();
    return status;
  }
  return COLL_OK;
}

/* ---- the tree -------------------------------------------------------------------------------*/

static int depth_of(int rank) {
  int depth = 0;
  while (rank > 0) {
    rank = (rank - 1) / 2;
    depth++;
  }
  return depth;
}

/* found: [count]. */
static coll_status_t take_from_child(const measuring_t *m, int child, comm_network_cost_t found[]) {
  size_t bytes = (size_t)m->count * sizeof *found;
  const network_link_t link = link_to(m, child, TREE_STEP - depth_of(m->comm->rank));
  COLL_TRY(calibrate_link_exchange(&link, NULL, 0, found, bytes));
  for (int host = 0; host < m->count; host++) {
    if (found[host].hop_ps > 0) m->costs[host] = found[host];
  }
  return COLL_OK;
}

static coll_status_t gather(const measuring_t *m, comm_network_cost_t found[]) {
  size_t bytes = (size_t)m->count * sizeof *found;
  int rank = m->comm->rank, step = TREE_STEP + 2 * depth_of(rank);
  for (int child = 2 * rank + 1; child <= 2 * rank + 2 && child < m->comm->size; child++) {
    COLL_TRY(take_from_child(m, child, found));
  }
  if (rank > 0) {
    const network_link_t link = link_to(m, (rank - 1) / 2, step);
    COLL_TRY(calibrate_link_exchange(&link, m->costs, bytes, NULL, 0));
    COLL_TRY(calibrate_link_exchange(&link, NULL, 0, m->costs, bytes));
  }
  for (int child = 2 * rank + 1; child <= 2 * rank + 2 && child < m->comm->size; child++) {
    const network_link_t link = link_to(m, child, step);
    COLL_TRY(calibrate_link_exchange(&link, m->costs, bytes, NULL, 0));
  }
  return COLL_OK;
}

coll_status_t calibrate_network_measure(struct coll_comm *comm, const comm_network_host_t hosts[],
                                        int count, uint64_t timeout_ns,
                                        comm_network_cost_t costs[]) {
  comm_network_cost_t *found;
  const measuring_t m = {.comm = comm,
                         .hosts = hosts,
                         .count = count,
                         .costs = costs,
                         .begin_ns = base_clock_now_ns(),
                         .timeout_ns = timeout_ns};
  COLL_TRY(base_alloc((size_t)count, sizeof *found, "costs of hosts", (void **)&found));
  memset(costs, 0, (size_t)count * sizeof *costs);
  coll_status_t status = measure_host(&m);
  if (status == COLL_OK) status = gather(&m, found);
  free(found);
  return status;
}
