/*
 * The costs of the network, as far as no messages are needed: which pairs of hosts are measured,
 * what follows from times, and when what the cache has still holds.
 */
#include <criterion/criterion.h>

#include "calibrate/network.h"

enum { HOP_PS = 5000000, HOUR_S = 3600 };

/* ---- pairs ----------------------------------------------------------------------------------*/

/* Hosts of which so many follow each other on one machine; 0: their kernels are unknown. */
static void make_hosts(comm_network_host_t hosts[], int count, int containers) {
  for (int i = 0; i < count; i++) {
    uint64_t kernel = containers > 0 ? 7 + (uint64_t)(i / containers) : 0;
    hosts[i] = (comm_network_host_t){.rank = i, .kernel = kernel};
  }
}

static void check_round(const comm_network_host_t hosts[], int count, int round) {
  for (int host = 0; host < count; host++) {
    int partner = calibrate_network_partner(hosts, count, host, round);
    cr_assert(partner >= -1 && partner < count && partner != host);
    if (partner < 0) continue;
    cr_assert_eq(calibrate_network_partner(hosts, count, partner, round), host,
                 "round %d of %d hosts: %d and %d", round, count, host, partner);
  }
}

Test(network_pairs, pairs_of_a_round_are_disjoint) {
  comm_network_host_t hosts[130];
  for (int containers = 0; containers <= 4; containers++) {
    make_hosts(hosts, 130, containers);
    for (int count = 1; count <= 130; count++) {
      for (int round = 0; round < calibrate_network_rounds(count); round++) {
        check_round(hosts, count, round);
      }
    }
  }
}

static int pairs_of(const comm_network_host_t hosts[], int count, int host) {
  int pairs = 0;
  for (int round = 0; round < calibrate_network_rounds(count); round++) {
    pairs += calibrate_network_partner(hosts, count, host, round) >= 0;
  }
  return pairs;
}

Test(network_pairs, every_host_is_in_a_pair_and_the_rounds_are_few) {
  static const int rounds[][2] = {{1, 0}, {2, 1}, {3, 2}, {4, 2}, {64, 6}, {65, 7}, {4096, 12}};
  static comm_network_host_t hosts[4096];
  for (size_t i = 0; i < sizeof rounds / sizeof *rounds; i++) {
    int count = rounds[i][0];
    cr_assert_eq(calibrate_network_rounds(count), rounds[i][1]);
    for (int containers = 0; containers <= 1; containers++) {
      make_hosts(hosts, count, containers);
      for (int host = 0; count > 1 && host < count; host++) {
        cr_assert_gt(pairs_of(hosts, count, host), 0, "host %d of %d", host, count);
      }
    }
  }
}

/* Two containers on each of two machines, then four on one. */
Test(network_pairs, containers_of_a_machine_are_measured_if_there_is_no_other) {
  comm_network_host_t hosts[4];
  make_hosts(hosts, 4, 2);
  for (int host = 0; host < 4; host++) {
    cr_expect_eq(calibrate_network_partner(hosts, 4, host, 0), -1);
    cr_expect_eq(calibrate_network_partner(hosts, 4, host, 1), host ^ 2);
  }
  make_hosts(hosts, 4, 4);
  for (int host = 0; host < 4; host++) cr_expect_eq(pairs_of(hosts, 4, host), 2);
}

/* ---- one pair -------------------------------------------------------------------------------*/

Test(network_pairs, a_hop_is_half_of_the_shortest_trip) {
  uint64_t steady[] = {13000, 10000, 29000, 11000}, busy[] = {31000, 10000, 90000, 40000};
  uint64_t stalled[] = {200000000, 10000, 11000};
  uint64_t hop = calibrate_network_hop_ps(steady, 4);
  cr_expect(hop >= 5000000 && hop <= 5000001, "%llu", (unsigned long long)hop);
  cr_expect_eq(calibrate_network_hop_ps(stalled, 3), hop);
  cr_expect_eq(calibrate_network_hop_ps(busy, 4), 0);
}

Test(network_pairs, long_messages_both_ways_take_about_as_long_as_one_way) {
  static const struct {
    uint64_t one_way_ps, both_ways_ps;
    bool is_plausible;
  } table[] = {{100, 100, true}, {100, 200, true},  {100, 300, true}, {100, 301, false},
               {300, 100, true}, {301, 100, false}, {0, 100, false},  {100, 0, false}};
  for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
    const comm_network_cost_t cost = {
        .hop_ps = HOP_PS, .one_way_ps = table[i].one_way_ps, .both_ways_ps = table[i].both_ways_ps};
    cr_expect_eq(calibrate_network_is_plausible(&cost), table[i].is_plausible, "row %zu", i);
  }
}

Test(network_pairs, costs_hold_for_an_hour_and_by_a_hop) {
  static const struct {
    int64_t age_s;
    uint64_t hop_ps;
    bool holds;
  } table[] = {
      {0, HOP_PS, true},
      {HOUR_S - 1, HOP_PS, true},
      {HOUR_S, HOP_PS, false},
      {-1, HOP_PS, false}, /* the clock was set back */
      {9, 2 * HOP_PS - 1, true},
      {9, 2 * HOP_PS, false},
      {9, HOP_PS / 2 + 1, true},
      {9, HOP_PS / 2, false},
      {9, 0, true},
      {HOUR_S, 0, false},
  };
  for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
    const comm_network_cost_t cost = {
        .hop_ps = HOP_PS, .both_ways_ps = 1, .measured_s = 1000000 - table[i].age_s};
    cr_expect_eq(calibrate_network_holds(&cost, table[i].hop_ps, 1000000), table[i].holds,
                 "row %zu", i);
  }
}

Test(network_pairs, a_key_is_of_both_hosts_and_the_route) {
  const comm_network_host_t one = {.rank = 0, .kernel = 7, .megabits = 10000};
  const comm_network_host_t other = {.rank = 4, .kernel = 9, .megabits = 25000};
  comm_network_host_t changed = other;
  uint64_t key = calibrate_network_key(&one, &other, "tcp");
  cr_expect_neq(key, 0);
  cr_expect_eq(calibrate_network_key(&other, &one, "tcp"), key);
  cr_expect_neq(calibrate_network_key(&one, &other, "verbs"), key);
  changed.rank = 5;
  cr_expect_eq(calibrate_network_key(&one, &changed, "tcp"), key);
  changed.megabits = 10000;
  cr_expect_neq(calibrate_network_key(&one, &changed, "tcp"), key);
  changed = other;
  changed.containers = 2;
  cr_expect_neq(calibrate_network_key(&one, &changed, "tcp"), key);
  changed = other;
  changed.rails = 2;
  cr_expect_neq(calibrate_network_key(&one, &changed, "tcp"), key);
  cr_expect_neq(calibrate_network_key(&one, &changed, "tcp"),
                calibrate_network_key(&changed, &other, "tcp"));
  changed = other;
  changed.kernel = 8; /* the host was started again */
  cr_expect_neq(calibrate_network_key(&one, &changed, "tcp"), key);
  changed.kernel = 0;
  cr_expect_eq(calibrate_network_key(&one, &changed, "tcp"), 0);
}
