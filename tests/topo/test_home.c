/* The home of a rank by its cpus, and layouts of ranks with homes. */
#include <criterion/criterion.h>
#include <stdio.h>

#include "tests/topo/tree.h"
#include "topo/home.h"

static char root[TREE_BYTES];

/* Two packages of two NUMA nodes of four cpus; the second hyperthreads have numbers from 8 on. */
static void make_tree(void) {
  static const char *const nodes[] = {"0-1,8-9\n", "2-3,10-11\n", "4-5,12-13\n", "6-7,14-15\n"};
  char path[128];
  tree_make(root);
  tree_add(root, "devices/system/node/online", "0-3\n");
  for (int i = 0; i < 4; i++) {
    snprintf(path, sizeof path, "devices/system/node/node%d/cpulist", i);
    tree_add(root, path, nodes[i]);
  }
  for (int cpu = 0; cpu < 16; cpu++) {
    int package = cpu / 4 % 2;
    snprintf(path, sizeof path, "devices/system/cpu/cpu%d/topology/core_siblings_list", cpu);
    tree_add(root, path, package == 0 ? "0-3,8-11\n" : "4-7,12-15\n");
    snprintf(path, sizeof path, "devices/system/cpu/cpu%d/topology/physical_package_id", cpu);
    tree_add(root, path, package == 0 ? "0\n" : "1\n");
  }
}

static topo_home_t home_of(uint64_t cpus) {
  const topo_cpus_t set = {.words = {cpus}};
  return topo_home_of(root, &set);
}

static void check(topo_home_t home, int package, int numa) {
  cr_assert(home.package == package && home.numa == numa, "package %d, NUMA node %d",
            (int)home.package, (int)home.numa);
}

Test(home, follows_from_the_cpus_of_a_rank) {
  make_tree();
  check(home_of(0x0001), 0, 0);
  check(home_of(0x0808), 0, 1);
  check(home_of(0x5000 | 0x0040), 1, TOPO_HOME_NONE);
  check(home_of(0xc000), 1, 3);
  check(home_of(0xffff), TOPO_HOME_NONE, TOPO_HOME_NONE);
  check(home_of(0), TOPO_HOME_NONE, TOPO_HOME_NONE);
  tree_remove(root);
}

Test(home, is_unknown_without_sysfs_or_if_it_is_damaged) {
  snprintf(root, sizeof root, "/nowhere");
  check(home_of(1), TOPO_HOME_NONE, TOPO_HOME_NONE);
  make_tree();
  tree_add(root, "devices/system/node/node0/cpulist", "0-x\n");
  tree_add(root, "devices/system/cpu/cpu0/topology/physical_package_id", "-1\n");
  check(home_of(1), TOPO_HOME_NONE, TOPO_HOME_NONE);
  tree_remove(root);
}

static topo_layout_t *layout_of(const topo_home_t homes[], int32_t size) {
  topo_layout_t *layout;
  cr_assert_eq(topo_home_layout(homes, size, &layout), COLL_OK, "%s", base_last_error());
  return layout;
}

Test(home, ranks_of_one_numa_node_have_no_layout) {
  static const topo_home_t same[] = {{0, 1}, {0, 1}, {0, 1}};
  static const topo_home_t unbound[] = {{0, 0}, {0, 0}, {1, 1}, {TOPO_HOME_NONE, TOPO_HOME_NONE}};
  static const topo_home_t alone[] = {{0, 0}, {0, 0}, {1, 1}};
  cr_assert_null(layout_of(same, 3));
  cr_assert_null(layout_of(unbound, 4));
  cr_assert_null(layout_of(alone, 3), "a group of one rank is no level");
}

Test(home, packages_and_numa_nodes_that_divide_ranks_are_levels) {
  static const topo_home_t homes[] = {{0, 0}, {0, 1}, {1, 2}, {1, 3},
                                      {0, 0}, {0, 1}, {1, 2}, {1, 3}};
  static const int32_t packages[] = {0, 0, 1, 1, 0, 0, 1, 1}, nodes[] = {0, 1, 2, 3, 0, 1, 2, 3};
  topo_layout_t *layout = layout_of(homes, 8);
  cr_assert_not_null(layout);
  cr_assert_eq(layout->levels, 2);
  cr_assert(layout->level[0].kind == TOPO_PACKAGE && layout->level[1].kind == TOPO_NUMA);
  cr_assert_arr_eq(layout->level[0].group_of, packages, sizeof packages);
  cr_assert_arr_eq(layout->level[1].group_of, nodes, sizeof nodes);
  cr_assert(topo_layout_is_mapped(layout));
  topo_layout_free(layout);
  layout = layout_of((const topo_home_t[]){{0, 0}, {0, 1}, {1, 2}, {1, 3}}, 4);
  cr_assert(layout != NULL && layout->levels == 1, "each rank is alone in its NUMA node");
  topo_layout_free(layout);
  layout = layout_of((const topo_home_t[]){{0, 0}, {0, 1}, {0, 1}, {0, 0}}, 4);
  cr_assert(layout != NULL && layout->levels == 1 && layout->level[0].kind == TOPO_NUMA);
  topo_layout_free(layout);
}
