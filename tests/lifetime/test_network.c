/*
 * What a communicator of several hosts does with the costs that its ranks measure. The functions
 * defined here override the library's at link time: nothing is measured, the costs are the test's.
 */
#include <criterion/criterion.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "calibrate/costs.h"
#include "calibrate/network.h"
#include "comm/comm.h"
#include "harness/party.h"
#include "lifetime/network.h"

enum { SLOT_BYTES = 1 << 16 };

static const comm_network_cost_t measured = {
    .hop_ps = 30000000, .send_ps = 28000000, .one_way_ps = 900000, .both_ways_ps = 1000000};

/* ---- ends and links -------------------------------------------------------------------------*/

static uint64_t push_ps(const tune_machine_t *costs) {
  return tune_machine_move_ps(costs, TUNE_PUSH, SLOT_BYTES);
}

/* The tuner's price of one way between two such hosts: of a hop without bytes, and of a KiB. */
static void price(const tune_machine_t *costs, const comm_network_cost_t *host, uint64_t *hop_ps,
                  uint64_t *kib_ps) {
  topo_star_link_t link = lifetime_network_link(costs, host, SLOT_BYTES);
  *hop_ps = 2 * (uint64_t)(link.latency_us * 1e6 + costs->fixed_ps[TUNE_DISTANT] + 0.5);
  *kib_ps = 2 * (costs->move_ps[TUNE_CROSS][0] + push_ps(costs)) +
            (uint64_t)(1024e3 / link.gigabytes_per_s + 0.5);
}

Test(network, ends_and_links_add_up_to_what_was_measured) {
  for (int is_one_machine = 0; is_one_machine < 2; is_one_machine++) {
    tune_machine_t costs = tune_machine_builtin;
    uint64_t hop_ps, kib_ps;
    lifetime_network_set_ends(&costs, &measured, 1, is_one_machine, SLOT_BYTES);
    price(&costs, &measured, &hop_ps, &kib_ps);
    cr_expect_eq(hop_ps, measured.hop_ps, "%llu", (unsigned long long)hop_ps);
    cr_expect(kib_ps - measured.both_ways_ps <= 1, "%llu", (unsigned long long)kib_ps);
    uint64_t distant_ps = tune_machine_builtin.fixed_ps[TUNE_DISTANT];
    if (is_one_machine) distant_ps = measured.send_ps / 2;
    cr_expect_eq(costs.fixed_ps[TUNE_DISTANT], distant_ps);
    uint64_t cores_ps = is_one_machine ? 500000 : 100000;
    cr_expect_eq(costs.move_ps[TUNE_CROSS][0] + push_ps(&costs), cores_ps);
    for (int i = 1; i < TUNE_SIZES; i++) {
      cr_expect_eq(costs.move_ps[TUNE_CROSS][i], costs.move_ps[TUNE_CROSS][0]);
    }
  }
}

Test(network, ends_take_no_longer_than_a_short_hop) {
  const comm_network_cost_t fast = {.hop_ps = 1500000, .one_way_ps = 20000, .both_ways_ps = 20000};
  tune_machine_t costs = tune_machine_builtin;
  lifetime_network_set_ends(&costs, &fast, 1, false, SLOT_BYTES);
  topo_star_link_t link = lifetime_network_link(&costs, &fast, SLOT_BYTES);
  cr_expect_eq(costs.fixed_ps[TUNE_DISTANT], 750000);
  cr_expect_eq(costs.move_ps[TUNE_CROSS][0], 0);
  cr_expect(link.latency_us >= 0 && link.latency_us < 1e-6);
  cr_expect(link.gigabytes_per_s > 0 && link.gigabytes_per_s <= 1024e3);
}

Test(network, no_way_is_shorter_than_nothing) {
  const comm_network_cost_t near = {.hop_ps = 1500000, .one_way_ps = 1, .both_ways_ps = 1};
  topo_star_link_t link = lifetime_network_link(&tune_machine_builtin, &near, SLOT_BYTES);
  cr_assert_gt(2 * tune_machine_builtin.fixed_ps[TUNE_DISTANT], near.hop_ps);
  cr_expect(link.latency_us == 0 && link.gigabytes_per_s > 0);
}

Test(network, ends_are_those_of_the_fastest_host) {
  const comm_network_cost_t hosts[] = {
      {.hop_ps = 0}, measured, {.hop_ps = 3000000, .one_way_ps = 900000, .both_ways_ps = 990000}};
  tune_machine_t costs = tune_machine_builtin;
  lifetime_network_set_ends(&costs, hosts, 3, false, SLOT_BYTES);
  cr_expect_eq(costs.fixed_ps[TUNE_DISTANT], 1500000);
  cr_expect_eq(costs.move_ps[TUNE_CROSS][0] + push_ps(&costs), 90000);
  costs = tune_machine_builtin;
  lifetime_network_set_ends(&costs, hosts, 1, false, SLOT_BYTES);
  cr_expect_eq(memcmp(&costs, &tune_machine_builtin, sizeof costs), 0, "of no host");
}

/* ---- communicators --------------------------------------------------------------------------*/

static bool busy;             /* nothing can be measured */
static bool is_one;           /* all ranks are on one host */
static bool is_short;         /* the limit of one rank's creation */
static bool dies;             /* the rank that measures for the second host */
static bool rests;            /* the same rank, until the others have returned */
static _Atomic bool measures; /* this rank does */

coll_status_t __wrap_calibrate_costs_find(tune_machine_t *costs);
coll_status_t __wrap_calibrate_costs_find(tune_machine_t *costs) {
  *costs = tune_machine_builtin;
  return COLL_OK;
}

/* Pairs with host 2 are slow. */
coll_status_t __wrap_calibrate_network_pair(const network_link_t *link,
                                            const comm_network_host_t *own,
                                            const comm_network_host_t *other,
                                            comm_network_cost_t *cost);
coll_status_t __wrap_calibrate_network_pair(const network_link_t *link,
                                            const comm_network_host_t *own,
                                            const comm_network_host_t *other,
                                            comm_network_cost_t *cost) {
  bool is_slow = own->rank == 4 || other->rank == 4;
  (void)link;
  *cost = (comm_network_cost_t){0};
  atomic_store(&measures, true);
  if (dies && own->rank == 2) _exit(0);
  if (rests && own->rank == 2) harness_barrier();
  if (busy) return COLL_OK;
  *cost = measured;
  cost->measured_s = (int64_t)time(NULL) - 125;
  if (is_slow) cost->hop_ps *= 2;
  return COLL_OK;
}

static uint64_t latency_ps(const struct coll_comm *comm, int from, int to) {
  const int32_t *wires;
  int32_t count;
  uint64_t sum_ps = 2 * (uint64_t)comm->plans.costs.fixed_ps[TUNE_DISTANT];
  if (topo_fabric_path(comm->layout->fabric, from, to, &wires, &count) != COLL_OK) return 0;
  for (int i = 0; i < count; i++) {
    sum_ps += topo_fabric_wire(comm->layout->fabric, wires[i]).latency_ps;
  }
  return sum_ps;
}

static int check_text(coll_comm_t comm, const char *wanted) {
  coll_estimate_t estimate = COLL_ESTIMATE_INIT;
  PARTY_OK(coll_comm_estimate(comm, COLL_ALLREDUCE, 1, COLL_FLOAT32, 1, 0, &estimate));
  PARTY_REQUIRE(strcmp(estimate.network, wanted) == 0, "the network: '%s'", estimate.network);
  return 0;
}

/* Two ranks on each of three hosts, over TCP. tune: that of rank 0, the others have "auto". The
 * board has the unique id. */
static int prepare(int rank, const char *tune, coll_comm_config_t *config) {
  static const char *const hosts[] = {"one", "two", "three"};
  *config = (coll_comm_config_t)COLL_COMM_CONFIG_INIT;
  config->host_id = hosts[is_one ? 0 : rank / 2];
  config->interfaces = "=lo";
  config->tune = rank == 0 ? tune : "auto";
  if (is_short && rank == 3) config->create_timeout_ms = 29999;
  unsetenv("COLL_INTERFACES");
  unsetenv("COLL_TUNE");
  setenv("COLL_INSECURE", "1", 1);
  if (rank == 0) PARTY_OK(coll_unique_id_create(NULL, harness_board()));
  harness_barrier();
  return 0;
}

static int create(int rank, int size, const char *tune, coll_comm_t *comm) {
  coll_comm_config_t config;
  PARTY_TRY(prepare(rank, tune, &config));
  PARTY_OK(coll_comm_create(harness_board(), rank, size, &config, comm));
  return 0;
}

static int check_all(coll_comm_t comm, int rank) {
  uint64_t digest = topo_layout_digest(comm->layout), digests[6];
  PARTY_OK(coll_allgather(&digest, digests, sizeof digest, COLL_UINT8, comm, NULL));
  for (int i = 0; i < comm->size; i++) {
    PARTY_REQUIRE(digests[i] == digest, "ranks %d and %d differ", rank, i);
  }
  return 0;
}

static int make_and_split(int rank, int size, void *context) {
  coll_comm_t comm, child;
  (void)context;
  PARTY_TRY(create(rank, size, "auto", &comm));
  PARTY_TRY(check_all(comm, rank));
  PARTY_REQUIRE(latency_ps(comm, 0, 2) == measured.hop_ps, "0 to 2: %llu",
                (unsigned long long)latency_ps(comm, 0, 2));
  PARTY_REQUIRE(latency_ps(comm, 1, 4) > measured.hop_ps, "host three is slower");
  PARTY_TRY(check_text(comm, "measured 60.0 us a hop, 1 GB/s between 3 hosts, 2 minutes ago"));
  /* Ranks 0, 2 and 4 of three hosts; ranks 1, 3 and 5 likewise. */
  PARTY_OK(coll_comm_split(comm, rank % 2, 0, NULL, &child));
  PARTY_TRY(check_all(child, rank));
  PARTY_REQUIRE(latency_ps(child, 0, 1) == measured.hop_ps, "the split differs");
  PARTY_TRY(check_text(child, "measured 60.0 us a hop, 1 GB/s between 3 hosts, 2 minutes ago"));
  PARTY_OK(coll_comm_destroy(child));
  PARTY_OK(coll_comm_split(comm, rank / 2, 0, NULL, &child));
  PARTY_TRY(check_text(child, ""));
  PARTY_OK(coll_comm_destroy(child));
  return coll_comm_destroy(comm) != COLL_OK;
}

/* The network is as assumed. context: COLL_TUNE of rank 0. */
static int make_unmeasured(int rank, int size, void *context) {
  coll_comm_t comm;
  PARTY_TRY(create(rank, size, context, &comm));
  PARTY_TRY(check_all(comm, rank));
  PARTY_REQUIRE(latency_ps(comm, 0, 2) == 8000000, "0 to 2: %llu",
                (unsigned long long)latency_ps(comm, 0, 2));
  PARTY_REQUIRE(comm->plans.costs.move_ps[TUNE_CROSS][0] == 0, "ends were measured");
  PARTY_TRY(check_text(comm, ""));
  return coll_comm_destroy(comm) != COLL_OK;
}

static int make_on_one_host(int rank, int size, void *context) {
  coll_comm_t comm;
  (void)context;
  PARTY_TRY(create(rank, size, "auto", &comm));
  PARTY_REQUIRE(!atomic_load(&measures), "a network was measured");
  return coll_comm_destroy(comm) != COLL_OK;
}

static int fail_to_make(int rank, int size, void *context) {
  (void)context;
  if (create(rank, size, "auto", &(coll_comm_t){NULL}) == 0) return harness_fail("it was made");
  const char *text = coll_last_error(NULL);
  PARTY_REQUIRE(strstr(text, "rank 2 (pid ") != NULL && strstr(text, " call ") == NULL,
                "it says '%s'", text);
  return 0;
}

/* Rank 0 creates it in the background, and gives up while it waits for rank 2. */
static int give_up(int rank, int size, void *context) {
  coll_comm_config_t config;
  coll_comm_t comm = NULL;
  (void)context;
  PARTY_TRY(prepare(rank, "auto", &config));
  config.blocking = rank != 0;
  coll_status_t status = coll_comm_create(harness_board(), rank, size, &config, &comm);
  if (rank == 0) {
    PARTY_REQUIRE(status == COLL_IN_PROGRESS, "%s", coll_last_error(NULL));
    while (!atomic_load(&measures)) sched_yield();
    PARTY_OK(coll_comm_abort(comm));
    while ((status = coll_comm_error(comm)) == COLL_IN_PROGRESS) sched_yield();
  }
  const char *text = coll_last_error(comm);
  PARTY_REQUIRE(status == COLL_ERROR_RANK_LOST && strstr(text, "rank 0") != NULL &&
                    strstr(text, "called coll_comm_abort") != NULL,
                "it says '%s'", text);
  if (rank == 0) PARTY_OK(coll_comm_destroy(comm));
  if (rank != 2) harness_barrier();
  return 0;
}

static void run(harness_body_t body, char *tune) {
  harness_result_t result;
  cr_assert(harness_run(6, 20000, body, tune, &result), "%s", result.text);
}

Test(network, links_and_splits_have_what_was_measured) {
  run(make_and_split, NULL);
}

Test(network, is_as_assumed_if_rank_0_does_not_measure) {
  run(make_unmeasured, "builtin");
}

Test(network, is_as_assumed_if_no_host_could_be_measured) {
  busy = true;
  run(make_unmeasured, "auto");
}

Test(network, is_not_measured_within_a_host) {
  is_one = true;
  run(make_on_one_host, NULL);
}

Test(network, is_as_assumed_if_a_rank_has_no_time) {
  is_short = true;
  run(make_unmeasured, "auto");
}

Test(network, a_rank_that_dies_meanwhile_is_named_by_all) {
  dies = true;
  run(fail_to_make, NULL);
}

Test(network, a_rank_that_gives_up_meanwhile_ends_it_for_all) {
  rests = true;
  run(give_up, NULL);
}
