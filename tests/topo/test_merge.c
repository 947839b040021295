/* Graphs of hosts that are merged, and mapping domains of hosts that containers divide. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "topo/kinds.h"
#include "topo/layout.h"
#include "topo/merge.h"

/* A machine whose NICs are joined by rails: switches outside the host. */
static topo_graph_t *machine(const char *kind) {
  topo_graph_t *graph;
  cr_assert_eq(topo_make(kind, 1, "rail", &graph), COLL_OK, "%s", base_last_error());
  return graph;
}

static int32_t find(const topo_graph_t *graph, const char *name) {
  for (size_t i = 0; i < graph->node_count; i++) {
    if (strcmp(graph->nodes[i].name, name) == 0) return (int32_t)i;
  }
  cr_assert_fail("no node '%s'", name);
  return TOPO_NONE;
}

Test(merge, hosts_are_numbered_and_share_their_switches) {
  topo_graph_t *big = machine("dgx-h100"), *small = machine("dgx-a100"), *merged;
  const topo_part_t parts[] = {{big, "one"}, {small, "two"}, {big, "one"}, {big, "three"}};
  cr_assert_eq(topo_merge(parts, 4, &merged), COLL_OK, "%s", base_last_error());
  size_t switches = topo_graph_count(big, TOPO_SWITCH);
  cr_assert_eq(topo_graph_count(merged, TOPO_HOST), 3, "equal identities are one host");
  cr_assert_eq(topo_graph_count(merged, TOPO_SWITCH), switches);
  cr_assert_eq(merged->node_count, 2 * big->node_count + small->node_count - 2 * switches);
  cr_assert_eq(merged->link_count, 2 * big->link_count + small->link_count);
  int32_t gpu = find(merged, "host1/gpu3");
  cr_assert_str_eq(merged->nodes[gpu].model, "A100 SXM");
  cr_assert_eq(topo_graph_host_of(merged, gpu), find(merged, "host1"));
  cr_assert_str_eq(merged->nodes[find(merged, "host2/gpu0")].model, "H100 SXM");
  topo_graph_free(merged);
  topo_graph_free(big);
  topo_graph_free(small);
}

/* A host called `name` with a core, and two linked switches. */
static topo_graph_t *tiny(const char *name, const char *core) {
  topo_graph_t *graph;
  int32_t left, right, host, node;
  cr_assert_eq(topo_graph_create("", &graph), COLL_OK);
  cr_assert_eq(topo_graph_add_node(graph, TOPO_SWITCH, TOPO_NONE, "left", &left), COLL_OK);
  cr_assert_eq(topo_graph_add_node(graph, TOPO_SWITCH, TOPO_NONE, "right", &right), COLL_OK);
  cr_assert_eq(topo_graph_add_node(graph, TOPO_HOST, TOPO_NONE, name, &host), COLL_OK);
  cr_assert_eq(topo_graph_add_node(graph, TOPO_CORE, host, core, &node), COLL_OK);
  const topo_link_t link = {left, right, TOPO_CLASS_ETHERNET, 1, 1.0, 1.0};
  cr_assert_eq(topo_graph_add_link(graph, &link), COLL_OK);
  return graph;
}

Test(merge, any_names_are_made_unique) {
  topo_graph_t *left = tiny("alpha", "alpha/c"), *right = tiny("beta", "c"), *merged;
  const topo_part_t parts[] = {{left, "l"}, {right, "r"}};
  cr_assert_eq(topo_merge(parts, 2, &merged), COLL_OK, "%s", base_last_error());
  cr_assert_eq(merged->nodes[find(merged, "host0/c")].parent, find(merged, "host0"));
  cr_assert_eq(merged->nodes[find(merged, "host1/c")].parent, find(merged, "host1"));
  cr_assert_eq(merged->link_count, 1, "the link between switches is one link");
  topo_graph_free(merged);
  topo_graph_free(left);
  topo_graph_free(right);
}

Test(merge, what_cannot_be_merged_has_its_message) {
  topo_graph_t *two, *merged;
  topo_graph_t *wide = tiny("h", "a-name-of-as-many-bytes-as-a-node-can-have-and-not-one-byte-mor");
  cr_assert_eq(topo_make("laptop", 2, NULL, &two), COLL_OK);
  cr_assert_eq(topo_merge(&(topo_part_t){two, "x"}, 1, &merged), COLL_ERROR_INVALID);
  cr_assert_not_null(strstr(base_last_error(), "graph 0 of those to merge has 2 hosts"));
  cr_assert_null(merged);
  cr_assert_eq(topo_merge(&(topo_part_t){wide, "x"}, 1, &merged), COLL_ERROR_INVALID);
  cr_assert_not_null(strstr(base_last_error(), "shorten it"), "%s", base_last_error());
  topo_graph_free(two);
  topo_graph_free(wide);
}

typedef struct matrix {
  int32_t size;
  const char *rows; /* '1': the row's rank can share memory of the column's */
} matrix_t;

static bool can_share(void *context, int32_t a, int32_t b) {
  const matrix_t *matrix = context;
  return matrix->rows[a * matrix->size + b] == '1';
}

static void check_domains(const char *rows, int32_t size, const int32_t expected[]) {
  matrix_t matrix = {size, rows};
  int32_t found[8];
  topo_layout_t *layout;
  topo_domains_find(size, can_share, &matrix, found);
  cr_assert_arr_eq(found, expected, (size_t)size * sizeof *found);
  cr_assert_eq(topo_layout_create(size, &layout), COLL_OK);
  cr_assert_eq(topo_layout_set_domains(layout, found), COLL_OK, "%s", base_last_error());
  topo_layout_free(layout);
}

Test(merge, containers_divide_a_host_into_domains) {
  check_domains(
      "1111"
      "1111"
      "1111"
      "1111",
      4, (const int32_t[]){0, 0, 0, 0});
  check_domains(
      "1010"
      "0101"
      "1010"
      "0101",
      4, (const int32_t[]){0, 1, 0, 1});
  check_domains(
      "1000"
      "0100"
      "0010"
      "0001",
      4, (const int32_t[]){0, 1, 2, 3});
}

Test(merge, ranks_of_a_domain_all_share_each_others_memory) {
  check_domains(
      "110"
      "111"
      "011",
      3, (const int32_t[]){0, 0, 1});
  check_domains(
      "11"
      "01",
      2, (const int32_t[]){0, 1});
}
