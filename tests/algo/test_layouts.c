/* Composed algorithms over layouts: proved, and their messages go where the layout says. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/names.h"
#include "plans.h"
#include "verify/verify.h"

/* ---- layouts --------------------------------------------------------------------------------*/

/* `text` as for topo_layout_parse; `deals`: neighbours are on different hosts. */
typedef struct sample {
  const char *text;
  int32_t size;
  bool deals;
} sample_t;

static const sample_t samples[] = {
    {"hosts:2x2", 4, false},        {"hosts:8x8", 64, false},
    {"hosts:3x5", 15, false},       {"hosts:3+5", 8, false},
    {"hosts:1+4+2", 7, false},      {"hosts:1+1+6", 8, false},
    {"hosts:6+1", 7, false},        {"hosts:1+1+1", 3, false},
    {"hosts:2x4/numa:2", 8, false}, {"hosts:4x16/numa:4", 64, false},
    {"hosts:2+3/numa:2", 5, false}, {"hosts:4x4", 16, true},
    {"hosts:2x3", 6, true},         {"grid:4x4", 16, false},
    {"grid:8x8", 64, false},        {"grid:3x5", 15, false},
    {"grid:4x4x4", 64, false},      {"grid:2x3x4", 24, false},
    {"mesh:3x5", 15, false},        {"mesh:8x8", 64, false},
};

enum { SAMPLES = sizeof samples / sizeof samples[0] };

/* Gives the ranks to the hosts in turn. */
static topo_layout_t *deal(const topo_layout_t *blocks) {
  topo_layout_t *dealt;
  int32_t size = blocks->size, hosts = blocks->level[0].groups;
  int32_t *host_of = malloc((size_t)size * sizeof *host_of);
  for (int32_t rank = 0; rank < size; rank++) host_of[rank] = rank % hosts;
  cr_assert_eq(topo_layout_create(size, &dealt), COLL_OK);
  cr_assert_eq(topo_layout_add_level(dealt, TOPO_HOST, host_of), COLL_OK);
  cr_assert_eq(topo_layout_set_domains(dealt, host_of), COLL_OK);
  free(host_of);
  return dealt;
}

static topo_layout_t *layout_of(const sample_t *sample) {
  topo_layout_t *layout;
  cr_assert_eq(topo_layout_parse(sample->text, sample->size, &layout), COLL_OK, "%s",
               base_last_error());
  if (!sample->deals) return layout;
  topo_layout_t *dealt = deal(layout);
  topo_layout_free(layout);
  return dealt;
}

/* ---- proofs ---------------------------------------------------------------------------------*/

static plan_t *build(const algo_t *algo, const plan_shape_t *shape, bool in_place) {
  plan_t *plan;
  cr_assert_eq(algo_build(algo, shape, ALGO_ALL_RANKS, in_place, &plan), COLL_OK, "%s",
               base_last_error());
  return plan;
}

static void prove(const algo_t *algo, const sample_t *sample, const topo_layout_t *layout,
                  int32_t root, bool in_place) {
  verify_report_t report;
  const plan_shape_t shape = {
      .collective = algo->collective, .size = layout->size, .root = root, .layout = layout};
  plan_t *plan = build(algo, &shape, in_place);
  cr_assert_eq(verify_plan(plan, &report), COLL_OK, "%s", base_last_error());
  cr_assert_eq(report.verdict, VERIFY_PROVED, "%s/%s on %s, root %d%s: %s",
               base_collective_name(algo->collective), algo->name, sample->text, (int)root,
               in_place ? ", in place" : "", report.text);
  plan_free(plan);
}

static void prove_on(const algo_t *algo, const sample_t *sample, const topo_layout_t *layout) {
  const plan_shape_t shape = {
      .collective = algo->collective, .size = layout->size, .layout = layout};
  bool legal;
  cr_assert_eq(algo_is_legal(algo, &shape, &legal), COLL_OK);
  if (!legal) return;
  for (int32_t root = -1; (root = test_next_lead(algo, layout->size, 8, root)) >= 0;) {
    prove(algo, sample, layout, root, false);
    prove(algo, sample, layout, root, true);
  }
}

Test(layouts, every_algorithm_is_proved) {
  for (int i = 0; i < SAMPLES; i++) {
    topo_layout_t *layout = layout_of(&samples[i]);
    for (int c = 0; c < COLL_COLLECTIVE_COUNT; c++) {
      const algo_t *algo;
      for (int a = 0; (algo = algo_at((coll_collective_t)c, a)) != NULL; a++) {
        if (algo->composition != NULL) prove_on(algo, &samples[i], layout);
      }
    }
    topo_layout_free(layout);
  }
}

/* ---- mapping domains ------------------------------------------------------------------------*/

Test(layouts, plans_keep_to_their_mapping_domains) {
  topo_layout_t *layout;
  int legal_count = 0, refused = 0;
  cr_assert_eq(topo_layout_parse("hosts:2x2", 4, &layout), COLL_OK);
  for (int c = 0; c < COLL_COLLECTIVE_COUNT; c++) {
    const algo_t *algo;
    for (int a = 0; (algo = algo_at((coll_collective_t)c, a)) != NULL; a++) {
      const plan_shape_t shape = {.collective = (coll_collective_t)c, .size = 4, .layout = layout};
      bool legal;
      plan_t *plan = NULL;
      cr_assert_eq(algo_is_legal(algo, &shape, &legal), COLL_OK);
      coll_status_t status = algo_build(algo, &shape, ALGO_ALL_RANKS, false, &plan);
      cr_assert_eq(status == COLL_OK, legal, "%s/%s", base_collective_name(algo->collective),
                   algo->name);
      if (!legal)
        cr_assert(strstr(base_last_error(), "on another host") != NULL, "%s", base_last_error());
      legal_count += legal;
      refused += !legal;
      plan_free(plan);
    }
  }
  cr_assert_gt(legal_count, 20);
  cr_assert_gt(refused, 20);
  topo_layout_free(layout);
}

/* ---- traffic --------------------------------------------------------------------------------*/

/* Visits all sends of the plan. Returns the chunks of those for which `counts` holds. */
static int64_t chunks_sent(const plan_t *plan,
                           bool (*counts)(const topo_layout_t *layout, int32_t a, int32_t b)) {
  int64_t chunks = 0;
  for (int32_t rank = 0; rank < plan->shape.size; rank++) {
    for (int lane = 0; lane < plan->lanes; lane++) {
      const plan_lane_t *steps = &plan->programs[rank].lanes[lane];
      for (size_t i = 0; i < steps->count; i++) {
        const plan_step_t *step = &steps->steps[i];
        if (step->kind != PLAN_SEND) continue;
        if (counts(plan->shape.layout, rank, step->send.peer)) chunks += step->send.src.count;
      }
    }
  }
  return chunks;
}

static bool is_between_hosts(const topo_layout_t *layout, int32_t a, int32_t b) {
  return layout->level[0].group_of[a] != layout->level[0].group_of[b];
}

static int64_t between_hosts(coll_collective_t collective, const char *name, const char *text,
                             int32_t size, int32_t *parts) {
  topo_layout_t *layout;
  const algo_t *algo;
  cr_assert_eq(topo_layout_parse(text, size, &layout), COLL_OK, "%s", base_last_error());
  cr_assert_eq(algo_find(collective, name, &algo), COLL_OK);
  const plan_shape_t shape = {.collective = collective, .size = size, .layout = layout};
  plan_t *plan = build(algo, &shape, false);
  int64_t chunks = chunks_sent(plan, is_between_hosts);
  *parts = plan->parts;
  plan_free(plan);
  topo_layout_free(layout);
  return chunks;
}

/* Every vector leaves and enters a host once in each half of allreduce, minus its own share. */
Test(layouts, no_data_go_between_hosts_twice) {
  int32_t parts;
  int64_t chunks = between_hosts(COLL_ALLREDUCE, "hierarchical", "hosts:4x8", 32, &parts);
  cr_assert_eq(chunks, 2 * 3 * parts); /* 4 hosts, each 2 (4 - 1) / 4 of a vector */
  chunks = between_hosts(COLL_ALLGATHER, "hierarchical", "hosts:4x8", 32, &parts);
  cr_assert_eq(chunks, 4 * 24); /* each host gets the 24 blocks of the others */
  chunks = between_hosts(COLL_ALLGATHER, "hierarchical", "hosts:3+5", 8, &parts);
  cr_assert_leq(chunks, 14); /* two links of a ring, 7 blocks each */
  chunks = between_hosts(COLL_REDUCE_SCATTER, "hierarchical", "hosts:4x8", 32, &parts);
  cr_assert_eq(chunks, 4 * 24);
  chunks = between_hosts(COLL_BROADCAST, "hierarchical", "hosts:4x8", 32, &parts);
  cr_assert_eq(chunks, 3 * parts);
  chunks = between_hosts(COLL_REDUCE, "hierarchical", "hosts:4x8", 32, &parts);
  cr_assert_eq(chunks, 3 * parts);
}

/* Whether the ranks are no neighbours in the grid; on a torus, the first and last of a line are. */
static bool are_apart(const topo_layout_t *layout, int32_t a, int32_t b) {
  int32_t steps = 0;
  for (int32_t d = layout->dims - 1; d >= 0; d--) {
    int32_t extent = layout->extents[d], distance = abs(a % extent - b % extent);
    if (layout->wraps && distance == extent - 1) distance = 1;
    steps += distance;
    a /= extent;
    b /= extent;
  }
  return steps != 1;
}

static void expect_neighbours(coll_collective_t collective, const char *name, const char *text,
                              int32_t size) {
  topo_layout_t *layout;
  const algo_t *algo;
  cr_assert_eq(topo_layout_parse(text, size, &layout), COLL_OK, "%s", base_last_error());
  cr_assert_eq(algo_find(collective, name, &algo), COLL_OK);
  const plan_shape_t shape = {.collective = collective, .size = size, .layout = layout};
  plan_t *plan = build(algo, &shape, false);
  cr_assert_eq(chunks_sent(plan, are_apart), 0, "%s/%s on %s sends beyond neighbours",
               base_collective_name(collective), name, text);
  plan_free(plan);
  topo_layout_free(layout);
}

Test(layouts, torus_and_mesh_are_crossed_between_neighbours_only) {
  const coll_collective_t collectives[] = {COLL_ALLREDUCE, COLL_REDUCE_SCATTER, COLL_ALLGATHER,
                                           COLL_REDUCE, COLL_BROADCAST};
  for (size_t i = 0; i < sizeof collectives / sizeof collectives[0]; i++) {
    expect_neighbours(collectives[i], "torus2d", "grid:4x5", 20);
    expect_neighbours(collectives[i], "torus3d", "grid:3x4x2", 24);
    expect_neighbours(collectives[i], "torus2d_multiport", "grid:4x5", 20);
    expect_neighbours(collectives[i], "torus3d_multiport", "grid:3x4x2", 24);
    expect_neighbours(collectives[i], "mesh2d", "mesh:4x5", 20);
  }
}
