/* Simulated calls over links against closed formulas. Computing costs nothing here, so that the
 * formulas hold to the picosecond. */
#include <criterion/criterion.h>
#include <stdio.h>

#include "base/names.h"
#include "topo/fabric.h"
#include "tune/tune.h"

enum { KIB_PS = 10240000, LATENCY_PS = 200000000 }; /* 0.1 GB/s, 200 us */

static const tune_machine_t no_costs;

/* Hosts that one switch connects; every `ranks_per_host` ranks share one. */
static topo_layout_t *star(int32_t ranks, int32_t ranks_per_host) {
  topo_graph_t *graph;
  topo_layout_t *layout;
  int32_t hub, node_of[64], group_of[64];
  cr_assert_eq(topo_graph_create("star", &graph), COLL_OK);
  cr_assert_eq(topo_graph_add_node(graph, TOPO_SWITCH, TOPO_NONE, "hub", &hub), COLL_OK);
  for (int32_t rank = 0; rank < ranks; rank++) {
    group_of[rank] = rank / ranks_per_host;
    if (rank % ranks_per_host > 0) {
      node_of[rank] = node_of[rank - 1];
      continue;
    }
    char name[16];
    snprintf(name, sizeof name, "host%d", (int)group_of[rank]);
    cr_assert_eq(topo_graph_add_node(graph, TOPO_HOST, TOPO_NONE, name, &node_of[rank]), COLL_OK);
    const topo_link_t link = {.a = node_of[rank],
                              .b = hub,
                              .link_class = TOPO_CLASS_ETHERNET,
                              .count = 1,
                              .gigabytes_per_s = 0.1,
                              .latency_us = 200};
    cr_assert_eq(topo_graph_add_link(graph, &link), COLL_OK);
  }
  cr_assert_eq(topo_layout_create(ranks, &layout), COLL_OK);
  cr_assert_eq(topo_layout_add_level(layout, TOPO_HOST, group_of), COLL_OK);
  cr_assert_eq(topo_layout_set_domains(layout, group_of), COLL_OK);
  cr_assert_eq(topo_fabric_create(graph, ranks, node_of, &layout->fabric), COLL_OK);
  return layout;
}

static tune_estimate_t estimate_on(const tune_machine_t *machine, int cores,
                                   const topo_layout_t *layout, coll_collective_t collective,
                                   const char *name, size_t bytes, size_t slot_bytes) {
  const tune_call_t call = {.collective = collective,
                            .bytes = bytes,
                            .element_bytes = 4,
                            .size = layout->size,
                            .cores = cores,
                            .reach = PLAN_REACH_USER,
                            .room = {slot_bytes, 0, (size_t)1 << 30}};
  const algo_t *algo;
  tune_profile_t profile;
  tune_estimate_t estimate;
  cr_assert_eq(algo_find(collective, name, &algo), COLL_OK, "%s", base_last_error());
  cr_assert_eq(tune_profile_make(algo, layout->size, layout, &plan_host_capabilities, &profile),
               COLL_OK);
  cr_assert_eq(tune_estimate(machine, &profile, &call, &estimate), COLL_OK, "%s",
               base_last_error());
  cr_assert_eq(estimate.verdict, TUNE_POSSIBLE, "%s: verdict %d", name, (int)estimate.verdict);
  uint64_t sum_ps = 0;
  for (int term = 0; term < TUNE_TERM_COUNT; term++) sum_ps += estimate.term_ps[term];
  cr_assert_eq(sum_ps, estimate.total_ps);
  return estimate;
}

static tune_estimate_t estimate_of(const topo_layout_t *layout, coll_collective_t collective,
                                   const char *name, size_t bytes, size_t slot_bytes) {
  return estimate_on(&no_costs, layout->size, layout, collective, name, bytes, slot_bytes);
}

static uint64_t time_ps(const topo_layout_t *layout, coll_collective_t collective, const char *name,
                        size_t bytes) {
  return estimate_of(layout, collective, name, bytes, (size_t)1 << 30).total_ps;
}

/* Each of the 2(p - 1) steps moves S / p over two links. */
Test(link_sim, ring) {
  topo_layout_t *layout = star(8, 1);
  cr_expect_eq(time_ps(layout, COLL_ALLREDUCE, "ring", 8 * 65536),
               UINT64_C(14) * (64 * KIB_PS + 2 * LATENCY_PS));
  tune_estimate_t estimate =
      estimate_of(layout, COLL_ALLREDUCE, "ring", 8 * 65536, (size_t)1 << 30);
  cr_expect_eq(estimate.bottleneck.bytes, 14 * 65536);
  cr_expect_eq(estimate.bottleneck.busy_ps, UINT64_C(14) * 64 * KIB_PS);
  topo_layout_free(layout);
}

/* Halving and doubling: log2(p) steps each way, of S/2, S/4, S/8. */
Test(link_sim, halving) {
  topo_layout_t *layout = star(8, 1);
  cr_expect_eq(time_ps(layout, COLL_ALLREDUCE, "halving_doubling", 8 * 65536),
               UINT64_C(14) * 64 * KIB_PS + 6 * UINT64_C(2) * LATENCY_PS);
  topo_layout_free(layout);
}

/* Each rank sends 7 blocks at once, over its own link and the others': no link is ever free before
 * it has carried all of its blocks. */
Test(link_sim, direct_alltoall) {
  topo_layout_t *layout = star(8, 1);
  cr_expect_eq(time_ps(layout, COLL_ALLTOALL, "allpairs", 65536),
               UINT64_C(7) * 64 * KIB_PS + 2 * LATENCY_PS);
  topo_layout_free(layout);
}

/* Eight rounds of pairs, in one of which a rank has no partner; where one waits for another that is
 * a round behind, both lose time. */
Test(link_sim, pairwise_alltoall) {
  topo_layout_t *layout = star(8, 1);
  uint64_t round_ps = UINT64_C(64) * KIB_PS + 2 * LATENCY_PS;
  uint64_t pairwise_ps = time_ps(layout, COLL_ALLTOALL, "pairwise", 65536);
  cr_expect_geq(pairwise_ps, 7 * round_ps);
  cr_expect_leq(pairwise_ps, 10 * round_ps);
  topo_layout_free(layout);
}

/* Two ranks per host send over one link what one rank per host sends over two. */
Test(link_sim, ranks_of_a_host_contend) {
  topo_layout_t *apart = star(8, 1), *together = star(8, 2);
  uint64_t latency_ps = 3 * UINT64_C(2) * LATENCY_PS;
  uint64_t alone_ps = time_ps(apart, COLL_ALLGATHER, "doubling", 65536);
  cr_expect_eq(alone_ps, UINT64_C(7) * 64 * KIB_PS + latency_ps);
  /* The first step stays within the host; each other one takes twice as long. While the second of
   * a host's messages is on the link, the rank that has got the first may go on. */
  uint64_t shared_ps = time_ps(together, COLL_ALLGATHER, "doubling", 65536);
  cr_expect_geq(shared_ps, UINT64_C(2) * 6 * 64 * KIB_PS + 2 * LATENCY_PS);
  cr_expect_leq(shared_ps, UINT64_C(2) * 6 * 64 * KIB_PS + 2 * UINT64_C(2) * LATENCY_PS);
  topo_layout_free(apart);
  topo_layout_free(together);
}

/* Ranks of a host cross the link to the others with 2 (h - 1) / h S in all, where hosts are h;
 * algorithms that know nothing of hosts may cross it with all that each rank sends. */
Test(link_sim, hierarchical_spares_the_links) {
  topo_layout_t *layout = star(16, 4);
  const size_t bytes = 1 << 20, slot_bytes = (size_t)1 << 30;
  tune_estimate_t nested = estimate_of(layout, COLL_ALLREDUCE, "hierarchical", bytes, slot_bytes);
  tune_estimate_t flat = estimate_of(layout, COLL_ALLREDUCE, "circulant", bytes, slot_bytes);
  cr_expect_eq(nested.bottleneck.bytes, bytes * 2 * 3 / 4);
  cr_expect_gt(nested.total_ps, nested.bottleneck.busy_ps);
  cr_expect_gt(flat.bottleneck.bytes, 4 * nested.bottleneck.bytes);
  cr_expect_gt(flat.total_ps, 4 * nested.total_ps);
  topo_layout_free(layout);
}

/* A torus of 4 x 4 hosts. */
static topo_layout_t *torus(void) {
  topo_graph_t *graph;
  topo_layout_t *layout;
  int32_t node_of[16];
  cr_assert_eq(topo_graph_create("torus", &graph), COLL_OK);
  for (int32_t rank = 0; rank < 16; rank++) {
    char name[16];
    snprintf(name, sizeof name, "host%d", (int)rank);
    cr_assert_eq(topo_graph_add_node(graph, TOPO_HOST, TOPO_NONE, name, &node_of[rank]), COLL_OK);
  }
  for (int32_t rank = 0; rank < 16; rank++) {
    const int32_t next[2] = {rank / 4 * 4 + (rank + 1) % 4, (rank + 4) % 16};
    for (int dim = 0; dim < 2; dim++) {
      const topo_link_t link = {.a = node_of[rank],
                                .b = node_of[next[dim]],
                                .link_class = TOPO_CLASS_TORUS,
                                .count = 1,
                                .gigabytes_per_s = 0.1,
                                .latency_us = 200};
      cr_assert_eq(topo_graph_add_link(graph, &link), COLL_OK);
    }
  }
  cr_assert_eq(topo_layout_parse("grid:4x4", 16, &layout), COLL_OK);
  cr_assert_eq(topo_fabric_create(graph, 16, node_of, &layout->fabric), COLL_OK);
  return layout;
}

/* Four segments over the four links of each rank: a quarter of the bytes in each round. */
Test(link_sim, multiport_uses_all_links) {
  topo_layout_t *layout = torus();
  uint64_t rounds_ps = 12 * UINT64_C(1) * LATENCY_PS;
  cr_expect_eq(time_ps(layout, COLL_ALLREDUCE, "torus2d", 1 << 20),
               UINT64_C(6) * (256 + 64) * KIB_PS + rounds_ps);
  cr_expect_eq(time_ps(layout, COLL_ALLREDUCE, "torus2d_multiport", 1 << 20),
               UINT64_C(6) * (64 + 16) * KIB_PS + rounds_ps);
  topo_layout_free(layout);
}

/* Further passes are extrapolated: as long as if all were simulated. */
Test(link_sim, passes) {
  topo_layout_t *layout = star(4, 1);
  const size_t slot_bytes = 65536;
  uint64_t times_ps[9];
  for (size_t passes = 1; passes <= 8; passes++) {
    tune_estimate_t estimate =
        estimate_of(layout, COLL_ALLREDUCE, "ring", passes * 4 * slot_bytes, slot_bytes);
    cr_assert_eq(estimate.passes, passes);
    times_ps[passes] = estimate.total_ps;
  }
  for (size_t passes = 2; passes < 8; passes++) {
    cr_expect_eq(times_ps[passes + 1] - times_ps[passes], times_ps[passes] - times_ps[passes - 1]);
  }
  topo_layout_free(layout);
}

/* A FIFO holds four messages, so over long links each four passes wait for one round. Where most of
 * the passes are extrapolated, the last ones may be a part of four. */
Test(link_sim, passes_wait_for_room_in_fifos) {
  const size_t slot_bytes = 4096;
  const uint64_t carry_ps = 4 * KIB_PS, round_ps = carry_ps + UINT64_C(2) * LATENCY_PS;
  for (int32_t ranks = 2; ranks <= 8; ranks += 6) {
    topo_layout_t *layout = star(ranks, 1);
    for (uint64_t windows = 1; windows <= 10000; windows *= 10) {
      tune_estimate_t estimate =
          estimate_of(layout, COLL_BROADCAST, "chain", windows * 4 * slot_bytes, slot_bytes);
      uint64_t rounds = windows + (uint64_t)ranks - 2, wrong_ps = windows > 100 ? round_ps : 0;
      cr_assert_eq(estimate.passes, windows * 4);
      cr_expect_geq(estimate.total_ps + wrong_ps, rounds * round_ps + 3 * carry_ps);
      cr_expect_leq(estimate.total_ps, rounds * round_ps + 3 * carry_ps + wrong_ps);
      cr_expect_eq(estimate.bottleneck.bytes, windows * 4 * slot_bytes);
    }
    topo_layout_free(layout);
  }
}

/* Two ranks of a core poll in turn while both wait: the second of them has to be switched to for
 * every message, even though it was the last one to run. */
Test(link_sim, a_rank_that_shares_its_core_is_switched_to_after_each_wait) {
  enum { SWITCH_PS = 7000 };
  const tune_machine_t machine = {.fixed_ps = {[TUNE_SWITCH] = SWITCH_PS}};
  topo_layout_t *layout = star(2, 1);
  for (uint64_t passes = 1; passes <= 4; passes++) {
    tune_estimate_t estimate =
        estimate_on(&machine, 1, layout, COLL_BROADCAST, "chain", passes * 4096, 4096);
    cr_expect_eq(estimate.total_ps, passes * 4 * KIB_PS + UINT64_C(2) * LATENCY_PS + 2 * SWITCH_PS,
                 "%d passes: %llu", (int)passes, (unsigned long long)estimate.total_ps);
  }
  topo_layout_free(layout);
}

/* Every algorithm ends, moves no less than a link must carry, and larger calls take longer. */
Test(link_sim, all_algorithms) {
  topo_layout_t *layouts[] = {star(8, 1), star(8, 4), star(6, 2)};
  for (size_t i = 0; i < sizeof layouts / sizeof layouts[0]; i++) {
    for (int collective = 0; collective < COLL_SENDRECV; collective++) {
      const algo_t *algo;
      for (int index = 0; (algo = algo_at((coll_collective_t)collective, index)) != NULL; index++) {
        tune_profile_t profile;
        cr_assert_eq(tune_profile_make(algo, layouts[i]->size, layouts[i], &plan_host_capabilities,
                                       &profile),
                     COLL_OK);
        if (profile.verdict != TUNE_POSSIBLE || profile.load.multicast) continue;
        uint64_t small_ps = time_ps(layouts[i], algo->collective, algo->name, 1024);
        uint64_t large_ps = time_ps(layouts[i], algo->collective, algo->name, 1 << 20);
        cr_expect_gt(small_ps, LATENCY_PS, "%s", algo->name);
        if (collective == COLL_BARRIER) continue;
        cr_expect_gt(large_ps, small_ps, "%s of %s", algo->name,
                     base_collective_name(algo->collective));
      }
    }
    topo_layout_free(layouts[i]);
  }
}

/* Estimates by rounds of plans that are simulated as well. Rounds do not show where messages of
 * several hosts meet, nor where ranks run ahead of others. */
Test(link_sim, rounds_agree_with_the_simulation) {
  static const char *const names[] = {"ring", "direct", "halving_doubling"};
  topo_layout_t *layout = star(16, 2);
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
    for (size_t bytes = 4096; bytes <= 4 << 20; bytes *= 32) {
      const algo_t *algo;
      tune_profile_t profile;
      tune_estimate_t simulated, by_rounds;
      const tune_call_t call = {.collective = COLL_ALLREDUCE,
                                .bytes = bytes,
                                .element_bytes = 4,
                                .size = 16,
                                .cores = 16,
                                .room = {(size_t)1 << 30, 0, (size_t)1 << 30}};
      cr_assert_eq(algo_find(COLL_ALLREDUCE, names[i], &algo), COLL_OK);
      cr_assert_eq(tune_profile_make(algo, 16, layout, &plan_host_capabilities, &profile), COLL_OK);
      cr_assert_eq(tune_estimate(&no_costs, &profile, &call, &simulated), COLL_OK);
      profile.all.steps = TUNE_SIMULATED_MAX + 1;
      cr_assert_eq(tune_estimate(&no_costs, &profile, &call, &by_rounds), COLL_OK);
      double ratio = (double)by_rounds.total_ps / (double)simulated.total_ps;
      cr_expect(ratio > 0.55 && ratio < 1.3, "%s of %zu bytes: %.2f", names[i], bytes, ratio);
    }
  }
  topo_layout_free(layout);
}
