/* Makes the graph, places the ranks and gives the layout the links. */
#include "layouts.h"

#include <criterion/criterion.h>

#include "topo/kinds.h"
#include "topo/place.h"

topo_layout_t *test_layout_of(const char *kind, int32_t hosts, const char *fabric, int32_t ranks) {
  topo_graph_t *graph;
  topo_placement_t placement;
  cr_assert_eq(topo_make(kind, hosts, fabric, &graph), COLL_OK, "%s", base_last_error());
  cr_assert_eq(topo_place(graph, ranks, &placement), COLL_OK);
  cr_assert_eq(topo_placement_add_fabric(&placement, graph), COLL_OK);
  topo_layout_t *layout = placement.layout;
  placement.layout = NULL;
  topo_placement_free(&placement);
  return layout;
}
