/* Paths between ranks, and how traffic is divided among equal paths. */
#include <criterion/criterion.h>
#include <string.h>

#include "layouts.h"
#include "topo/fabric.h"
#include "topo/kinds.h"
#include "topo/paths.h"
#include "topo/place.h"

static int32_t route_of(topo_layout_t *layout, int32_t from, int32_t to, const int32_t **wires) {
  int32_t count;
  cr_assert_eq(topo_fabric_path(layout->fabric, from, to, wires, &count), COLL_OK);
  return count;
}

Test(fabric, routes_lead_from_rank_to_rank) {
  topo_layout_t *layout = test_layout_of("dgx-h100", 2, "rail", 16);
  const topo_graph_t *graph = topo_fabric_graph(layout->fabric);
  for (int32_t from = 0; from < 16; from++) {
    for (int32_t to = 0; to < 16; to++) {
      const int32_t *wires;
      int32_t count = route_of(layout, from, to, &wires);
      const topo_node_t *at = &graph->nodes[topo_fabric_node(layout->fabric, from)];
      cr_assert_eq(count == 0, from == to);
      for (int32_t i = 0; i < count; i++) {
        cr_assert_eq(topo_fabric_wire_from(layout->fabric, wires[i]), at);
        at = topo_fabric_wire_to(layout->fabric, wires[i]);
      }
      cr_assert_eq(at, &graph->nodes[topo_fabric_node(layout->fabric, to)]);
    }
  }
  topo_layout_free(layout);
}

/* Every host sends to the one at the same place below the other leaf switch: with as many spine
 * switches as hosts below a leaf, no wire is used twice. */
Test(fabric, a_permutation_loads_all_spines) {
  topo_layout_t *layout = test_layout_of("laptop", 8, "spine-leaf:4,4", 8);
  int32_t uses[1024] = {0};
  for (int32_t from = 0; from < 8; from++) {
    const int32_t *wires;
    int32_t count = route_of(layout, from, (from + 4) % 8, &wires);
    for (int32_t i = 0; i < count; i++) uses[wires[i]]++;
  }
  for (int32_t wire = 0; wire < topo_fabric_wire_count(layout->fabric); wire++) {
    cr_expect_leq(uses[wire], 1, "%s to %s is used %d times",
                  topo_fabric_wire_from(layout->fabric, wire)->name,
                  topo_fabric_wire_to(layout->fabric, wire)->name, (int)uses[wire]);
  }
  topo_layout_free(layout);
}

Test(fabric, wires_have_the_speed_of_their_links) {
  topo_layout_t *layout = test_layout_of("laptop", 2, "spine-leaf:1,1", 2);
  const topo_graph_t *graph = topo_fabric_graph(layout->fabric);
  for (size_t i = 0; i < graph->link_count; i++) {
    if (graph->links[i].link_class != TOPO_CLASS_ETHERNET) continue;
    topo_wire_t wire = topo_fabric_wire(layout->fabric, 2 * (int32_t)i);
    /* 0.125 GB/s: 1 KiB takes 8192 ns */
    cr_assert_eq(wire.kib_ps * (uint64_t)(topo_link_width(&graph->links[i]) / 0.125), 8192000);
    cr_assert_eq(wire.latency_ps, (uint64_t)(graph->links[i].latency_us * 1e6));
    cr_assert_eq(wire.link_class, TOPO_CLASS_ETHERNET);
  }
  topo_layout_free(layout);
}

Test(fabric, a_part_keeps_the_paths) {
  topo_layout_t *layout = test_layout_of("dgx-a100", 2, "rail", 16), *part;
  const int32_t ranks[] = {15, 2, 9};
  cr_assert_eq(topo_layout_select(layout, ranks, 3, &part), COLL_OK);
  cr_assert_neq(topo_layout_digest(layout), topo_layout_digest(part));
  topo_layout_free(layout);
  layout = test_layout_of("dgx-a100", 2, "rail", 16);
  for (int32_t from = 0; from < 3; from++) {
    for (int32_t to = 0; to < 3; to++) {
      const int32_t *of_whole, *of_part;
      int32_t count = route_of(part, from, to, &of_part);
      cr_assert_eq(route_of(layout, ranks[from], ranks[to], &of_whole), count);
      if (from == to) continue;
      /* the last wires lead to the same GPU; in between, equal paths may differ */
      cr_assert_eq(of_part[count - 1], of_whole[count - 1]);
      cr_assert_eq(of_part[0], of_whole[0]);
    }
  }
  topo_layout_free(part);
  topo_layout_free(layout);
}

Test(fabric, slower_links_are_another_layout) {
  topo_layout_t *fast = test_layout_of("dgx-h100", 2, "rail", 16);
  topo_layout_t *slow = test_layout_of("dgx-a100", 2, "rail", 16);
  cr_assert_neq(topo_layout_digest(fast), topo_layout_digest(slow));
  topo_layout_free(fast);
  topo_layout_free(slow);
}

Test(fabric, one_host_without_gpus_has_none) {
  topo_layout_t *layout = test_layout_of("laptop", 1, "", 4);
  cr_assert_null(layout->fabric);
  topo_layout_free(layout);
}

/* Hosts that no switch connects: nothing is known of the links between them. */
Test(fabric, hosts_apart_have_none) {
  topo_graph_t *graph;
  topo_placement_t placement;
  int32_t node;
  cr_assert_eq(topo_graph_create("apart", &graph), COLL_OK);
  cr_assert_eq(topo_graph_add_node(graph, TOPO_HOST, TOPO_NONE, "a", &node), COLL_OK);
  cr_assert_eq(topo_graph_add_node(graph, TOPO_HOST, TOPO_NONE, "b", &node), COLL_OK);
  cr_assert_eq(topo_place(graph, 2, &placement), COLL_OK);
  cr_assert_eq(topo_placement_add_fabric(&placement, graph), COLL_OK);
  cr_assert_null(placement.layout->fabric);
  topo_placement_free(&placement);
}
