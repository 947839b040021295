/* The kit on the paced transport, and the times of what it carries. */
#include <criterion/criterion.h>
#include <stdio.h>

#include "base/clock.h"
#include "harness/virtual_time.h"
#include "transport/kit.h"
#include "transport/memory.h"
#include "transport/paced/paced.h"
#include "transport/shm/shm.h"

#define LATENCY_US 20.0 /* of each of the two links of a path */
#define GIGABYTES_PER_S 0.05

/* Freed when the next ones are made: a rank of a case may still use its own. */
static topo_fabric_t *fabrics[HARNESS_RANKS_MAX];

/* A switch, to which each host is linked; every `ranks_per_host` ranks have one host. */
static coll_status_t make_star(int size, int ranks_per_host, bool is_slow, topo_fabric_t **fabric) {
  topo_graph_t *graph;
  int32_t hub, node_of[HARNESS_RANKS_MAX];
  COLL_TRY(topo_graph_create("star", &graph));
  COLL_TRY(topo_graph_add_node(graph, TOPO_SWITCH, TOPO_NONE, "hub", &hub));
  for (int rank = 0; rank < size; rank++) {
    char name[16];
    if (rank % ranks_per_host > 0) {
      node_of[rank] = node_of[rank - 1];
      continue;
    }
    snprintf(name, sizeof name, "host%d", rank);
    COLL_TRY(topo_graph_add_node(graph, TOPO_HOST, TOPO_NONE, name, &node_of[rank]));
    const topo_link_t link = {.a = node_of[rank],
                              .b = hub,
                              .link_class = TOPO_CLASS_ETHERNET,
                              .count = 1,
                              .gigabytes_per_s = is_slow ? GIGABYTES_PER_S : 1e6,
                              .latency_us = is_slow ? LATENCY_US : 0};
    COLL_TRY(topo_graph_add_link(graph, &link));
  }
  return topo_fabric_create(graph, size, node_of, fabric);
}

static coll_status_t make(int size, int ranks_per_host, bool is_slow, transport_t *ends[]) {
  COLL_TRY(transport_shm_create_local(size, ends));
  for (int rank = 0; rank < size; rank++) {
    topo_fabric_free(fabrics[rank]);
    COLL_TRY(make_star(size, ranks_per_host, is_slow, &fabrics[rank]));
    COLL_TRY(transport_paced_create(ends[rank], fabrics[rank], &ends[rank]));
  }
  return COLL_OK;
}

static coll_status_t make_apart(int size, transport_t *ends[]) {
  return make(size, 1, true, ends);
}

static coll_status_t make_pairs(int size, transport_t *ends[]) {
  return make(size, 2, true, ends);
}

/* The kit expects that what was sent before a barrier is there after it. */
static coll_status_t make_fast(int size, transport_t *ends[]) {
  return make(size, 1, false, ends);
}

static const transport_fixture_t paced_fixture = {
    .size_max = HARNESS_RANKS_MAX,
    .maps = true,
    .has_scratch = true,
    .make = make_fast,
    .alloc = transport_memory_alloc,
    .release = transport_memory_free,
};

TRANSPORT_KIT_ANY(paced, paced_fixture, transport_kit_threads, 2)
TRANSPORT_KIT_PEERS(paced, paced_fixture, transport_kit_threads)

/* ---- times ----------------------------------------------------------------------------------*/

#define STEP_NS 50u
#define STEP_US 0.2 /* by which an arrival may be found late, with rounding */

/* Sends `bytes` from each of the senders at once, and returns the time in us until the receivers
 * have them: it passes only while nothing arrives. All ends are this thread's. */
static void exchange(transport_t *ends[], const int from[], const int to[], int count, size_t bytes,
                     double us[]) {
  static char data[1 << 16];
  virtual_time_freeze();
  uint64_t start_ns = base_clock_now_ns();
  const transport_head_t head = {.bytes = bytes};
  bool arrived[8] = {false};
  for (int i = 0; i < count; i++) {
    bool done;
    transport_port_t *port = ends[from[i]]->ops->port(ends[from[i]], to[i], 0);
    cr_assert_eq(port->transport->ops->send(port, data, &head, &done), COLL_OK);
    cr_assert(done);
  }
  for (int left = count; left > 0; virtual_time_advance(STEP_NS)) {
    for (int i = 0; i < count; i++) {
      transport_head_t found;
      transport_port_t *port = ends[to[i]]->ops->port(ends[to[i]], from[i], 0);
      if (arrived[i]) continue;
      cr_assert_eq(port->transport->ops->recv(port, data, sizeof data, &found, &arrived[i]),
                   COLL_OK);
      if (!arrived[i]) continue;
      us[i] = (double)(base_clock_now_ns() - start_ns) * 1e-3;
      left--;
    }
  }
}

static double transfer_us(size_t bytes) {
  return (double)bytes * 1e-3 / GIGABYTES_PER_S;
}

static void destroy(transport_t *ends[], int size) {
  for (int rank = 0; rank < size; rank++) ends[rank]->ops->destroy(ends[rank]);
}

static void require_time(double us, double expected_us) {
  cr_assert(us >= expected_us - STEP_US && us <= expected_us + STEP_US, "%.2f us, not %.2f", us,
            expected_us);
}

Test(paced_times, one_message_takes_latency_and_bandwidth, .init = virtual_time_begin) {
  transport_t *ends[2];
  cr_assert_eq(make_apart(2, ends), COLL_OK);
  for (size_t bytes = 0; bytes <= 8192; bytes += 4096) {
    double us;
    exchange(ends, (int[]){0}, (int[]){1}, 1, bytes, &us);
    require_time(us, 2 * LATENCY_US + transfer_us(bytes));
  }
  destroy(ends, 2);
}

#define BYTES 8192

static double alone_us(void) {
  return 2 * LATENCY_US + transfer_us(BYTES);
}

Test(paced_times, ranks_of_a_host_share_its_link, .init = virtual_time_begin) {
  transport_t *ends[4];
  double us[2];
  cr_assert_eq(make_pairs(4, ends), COLL_OK);
  exchange(ends, (int[]){0, 1}, (int[]){2, 3}, 2, BYTES, us);
  require_time(us[0], alone_us());
  require_time(us[1], alone_us() + transfer_us(BYTES));
  destroy(ends, 4);
}

Test(paced_times, hosts_do_not_share_links, .init = virtual_time_begin) {
  transport_t *ends[4];
  double us[2];
  cr_assert_eq(make_apart(4, ends), COLL_OK);
  exchange(ends, (int[]){0, 1}, (int[]){2, 3}, 2, BYTES, us);
  require_time(us[0], alone_us());
  require_time(us[1], alone_us());
  destroy(ends, 4);
}

/* The link to rank 2 is not kept free for the message of rank 0, which waits for rank 0's link. */
Test(paced_times, links_do_not_wait_for_each_other, .init = virtual_time_begin) {
  transport_t *ends[3];
  double us[4];
  cr_assert_eq(make_apart(3, ends), COLL_OK);
  exchange(ends, (int[]){0, 0, 0, 1}, (int[]){1, 1, 2, 2}, 4, BYTES, us);
  require_time(us[2], alone_us() + 2 * transfer_us(BYTES));
  require_time(us[3], alone_us() + transfer_us(BYTES));
  destroy(ends, 3);
}

/* Each direction of a link carries its own. */
Test(paced_times, directions_do_not_share, .init = virtual_time_begin) {
  transport_t *ends[2];
  double us[2];
  cr_assert_eq(make_apart(2, ends), COLL_OK);
  exchange(ends, (int[]){0, 1}, (int[]){1, 0}, 2, BYTES, us);
  require_time(us[0], alone_us());
  require_time(us[1], alone_us());
  destroy(ends, 2);
}

Test(paced_times, ranks_of_a_host_are_not_paced, .init = virtual_time_begin) {
  transport_t *ends[2];
  double us[1];
  cr_assert_eq(make_pairs(2, ends), COLL_OK);
  exchange(ends, (int[]){0}, (int[]){1}, 1, BYTES, us);
  require_time(us[0], 0);
  destroy(ends, 2);
}

/* What has been sent can be received after its sender has left, also if it arrives later. */
Test(paced_times, the_last_message_outlives_its_sender) {
  transport_t *ends[2];
  char data[8];
  bool done;
  transport_head_t head = {.bytes = sizeof data};
  cr_assert_eq(make_apart(2, ends), COLL_OK);
  transport_port_t *out = ends[0]->ops->port(ends[0], 1, 0);
  transport_port_t *in = ends[1]->ops->port(ends[1], 0, 0);
  cr_assert_eq(out->transport->ops->send(out, data, &head, &done), COLL_OK);
  ends[0]->ops->destroy(ends[0]);
  for (done = false; !done;) {
    transport_peer_state_t state = ends[1]->ops->peer_state(ends[1], 0);
    cr_assert_eq(in->transport->ops->recv(in, data, sizeof data, &head, &done), COLL_OK);
    cr_assert(done || state == TRANSPORT_PEER_HERE);
  }
  cr_assert_eq(ends[1]->ops->peer_state(ends[1], 0), TRANSPORT_PEER_LEFT);
  ends[1]->ops->destroy(ends[1]);
}
