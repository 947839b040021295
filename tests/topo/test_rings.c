/* Rings over disjoint paths: each goes through all ranks, and together they load the links evenly.
 */
#include "topo/rings.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "harness/sample.h"
#include "layouts.h"

static void expect_cycles(const topo_rings_t *rings) {
  for (int32_t ring = 0; ring < rings->count; ring++) {
    bool seen[TOPO_RINGS_RANKS_MAX] = {false};
    for (int32_t i = 0; i < rings->size; i++) {
      int32_t rank = topo_rings_order(rings, ring)[i];
      cr_assert(rank >= 0 && rank < rings->size && !seen[rank], "ring %d: rank %d", (int)ring,
                (int)rank);
      seen[rank] = true;
    }
  }
}

/* Edges of the rings over each wire; the caller frees them. */
static int32_t *uses_of(const topo_layout_t *layout) {
  int32_t *uses = calloc((size_t)topo_fabric_wire_count(layout->fabric), sizeof *uses);
  for (int32_t ring = 0; ring < layout->rings->count; ring++) {
    const int32_t *order = topo_rings_order(layout->rings, ring), *wires;
    for (int32_t i = 0; i < layout->size; i++) {
      int32_t count;
      cr_assert_eq(
          topo_fabric_path(layout->fabric, order[i], order[(i + 1) % layout->size], &wires, &count),
          COLL_OK);
      for (int32_t hop = 0; hop < count; hop++) uses[wires[hop]]++;
    }
  }
  return uses;
}

/* There are `rings`, and each wire of the class is used by `times` edges of them. */
static void expect_even(const char *kind, int32_t hosts, const char *fabric, int32_t ranks,
                        int32_t rings, topo_class_t link_class, int32_t times) {
  topo_layout_t *layout = test_layout_of(kind, hosts, fabric, ranks);
  cr_assert_not_null(layout->rings, "%s x %d, %s: no rings", kind, (int)hosts, fabric);
  cr_assert_eq(layout->rings->count, rings, "%s x %d, %s: %d rings", kind, (int)hosts, fabric,
               (int)layout->rings->count);
  expect_cycles(layout->rings);
  int32_t *uses = uses_of(layout);
  for (int32_t wire = 0; wire < topo_fabric_wire_count(layout->fabric); wire++) {
    if (topo_fabric_wire(layout->fabric, wire).link_class != link_class) continue;
    cr_expect_eq(uses[wire], times, "%s to %s: %d times",
                 topo_fabric_wire_from(layout->fabric, wire)->name,
                 topo_fabric_wire_to(layout->fabric, wire)->name, (int)uses[wire]);
  }
  free(uses);
  topo_layout_free(layout);
}

Test(rings, load_all_rails_equally) {
  for (int32_t hosts = 2; hosts <= 8; hosts++) {
    expect_even("dgx-h100", hosts, "rail", 8 * hosts, 8, TOPO_CLASS_INFINIBAND, 1);
  }
  expect_even("dgx-a100", 2, "rail", 16, 8, TOPO_CLASS_INFINIBAND, 1);
}

/* In one host seven rings share the 56 directions of 28 links; with rails, eight rings have seven
 * edges in each host, and each rail once. */
Test(rings, use_every_link_between_two_gpus) {
  expect_even("mi300x", 1, "", 8, 7, TOPO_CLASS_NVLINK, 1);
  expect_even("mi300x", 2, "rail", 16, 8, TOPO_CLASS_INFINIBAND, 1);
  expect_even("mi300x", 4, "rail", 32, 8, TOPO_CLASS_NVLINK, 1);
}

/* Two cycles without a common edge, in both directions. */
Test(rings, use_every_link_of_a_torus) {
  expect_even("laptop", 9, "torus:3x3", 9, 4, TOPO_CLASS_TORUS, 1);
  expect_even("laptop", 15, "torus:3x5", 15, 4, TOPO_CLASS_TORUS, 1);
  expect_even("laptop", 16, "torus:4x4", 16, 4, TOPO_CLASS_TORUS, 1);
  expect_even("laptop", 64, "torus:8x8", 64, 4, TOPO_CLASS_TORUS, 1);
}

static void expect_none(const char *kind, int32_t hosts, const char *fabric, int32_t ranks) {
  topo_layout_t *layout = test_layout_of(kind, hosts, fabric, ranks);
  cr_assert_not_null(layout->fabric);
  cr_expect_null(layout->rings, "%s x %d", kind, (int)hosts);
  topo_layout_free(layout);
}

Test(rings, are_none_where_one_in_order_is_as_fast) {
  expect_none("dgx-h100", 1, "", 8);
  expect_none("gb200-nvl72", 18, "rail", 72);
  expect_none("laptop", 16, "spine-leaf:4,4", 16);
  expect_none("dgx-h100", 2, "rail", 2);
  expect_none("dgx-h100", 17, "rail", 136); /* too many ranks to search */
}

/* Hosts of different sizes, and fewer ranks than GPUs: whatever is found is faster than one ring in
 * order. Two rails among three hosts would have to change at every host. */
Test(rings, are_faster_for_every_number_of_ranks) {
  for (int32_t ranks = 2; ranks <= 24; ranks++) {
    topo_layout_t *layout = test_layout_of("dgx-h100", 3, "rail", ranks);
    if (layout->rings != NULL) {
      int32_t order[24];
      uint64_t together, alone;
      topo_rings_t in_order = {.size = ranks, .count = 1, .order = order};
      for (int32_t i = 0; i < ranks; i++) order[i] = i;
      expect_cycles(layout->rings);
      cr_assert_eq(topo_rings_load(layout->rings, layout->fabric, &together), COLL_OK);
      cr_assert_eq(topo_rings_load(&in_order, layout->fabric, &alone), COLL_OK);
      cr_expect_lt(together, alone * (uint64_t)layout->rings->count, "%d ranks", (int)ranks);
    }
    cr_expect(layout->rings != NULL || ranks < 8, "%d ranks", (int)ranks);
    topo_layout_free(layout);
  }
}

Test(rings, are_kept_by_all_ranks_in_order) {
  topo_layout_t *layout = test_layout_of("dgx-h100", 2, "rail", 16), *part;
  int32_t ranks[16];
  for (int32_t i = 0; i < 16; i++) ranks[i] = i;
  cr_assert_eq(topo_layout_select(layout, ranks, 16, &part), COLL_OK);
  cr_assert_eq(topo_rings_digest(part->rings), topo_rings_digest(layout->rings));
  cr_assert_eq(topo_layout_digest(part), topo_layout_digest(layout));
  part->rings->order[0] ^= 1;
  cr_assert_neq(topo_layout_digest(part), topo_layout_digest(layout));
  topo_layout_free(part);
  cr_assert_eq(topo_layout_select(layout, ranks, 15, &part), COLL_OK);
  cr_assert_null(part->rings);
  topo_layout_free(part);
  topo_layout_free(layout);
}

/* In processor time, of a build without a sanitizer: the machine may be busy. */
Test(rings, are_found_quickly) {
  static const struct {
    const char *kind, *fabric;
    int32_t hosts;
  } cases[] = {{"dgx-h100", "rail", 8},
               {"mi300x", "rail", 8},
               {"laptop", "torus:8x8", 64},
               {"laptop", "torus:4x4x4", 64}};
  if (HARNESS_BUILD != HARNESS_PLAIN) cr_skip_test("a sanitizer takes longer");
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    clock_t best = CLOCKS_PER_SEC;
    for (int repeat = 0; repeat < 5; repeat++) {
      topo_layout_t *layout = test_layout_of(cases[i].kind, cases[i].hosts, cases[i].fabric, 64);
      topo_fabric_t *fresh;
      topo_rings_t *rings;
      int32_t ranks[64];
      for (int32_t rank = 0; rank < 64; rank++) ranks[rank] = rank;
      cr_assert_eq(topo_fabric_select(layout->fabric, ranks, 64, &fresh), COLL_OK);
      clock_t start = clock();
      cr_assert_eq(topo_rings_find(fresh, 64, &rings), COLL_OK);
      clock_t taken = clock() - start;
      best = taken < best ? taken : best;
      topo_rings_free(rings);
      topo_fabric_free(fresh);
      topo_layout_free(layout);
    }
    printf("%s %s: %ld us\n", cases[i].kind, cases[i].fabric,
           (long)((double)best * 1e6 / CLOCKS_PER_SEC));
    cr_expect_lt(best, CLOCKS_PER_SEC / 20, "%s %s", cases[i].kind, cases[i].fabric);
  }
}
