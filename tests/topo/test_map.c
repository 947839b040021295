/* The order in which ranks are given to hosts. */
#include "topo/map.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "topo/kinds.h"
#include "topo/place.h"

enum { RANKS_MAX = 64, HOSTS_MAX = 9 };

/* Ranks of each host when hosts are filled evenly. Returns the hosts that have any. */
static int32_t fill(int32_t size, int32_t hosts, int32_t count_of[]) {
  int32_t used = size < hosts ? size : hosts;
  for (int32_t host = 0; host < used; host++) count_of[host] = size / used + (host < size % used);
  return used;
}

static void host_of_ranks(topo_map_t map, int32_t size, int32_t hosts, int32_t host_of[]) {
  int32_t count_of[HOSTS_MAX], rank_at[RANKS_MAX], place = 0;
  hosts = fill(size, hosts, count_of);
  cr_assert_eq(topo_map_ranks(map, hosts, count_of, size, rank_at), COLL_OK);
  for (int32_t rank = 0; rank < size; rank++) host_of[rank] = -1;
  for (int32_t host = 0; host < hosts; host++) {
    for (int32_t i = 0; i < count_of[host]; i++, place++) {
      int32_t rank = rank_at[place];
      cr_assert(rank >= 0 && rank < size && host_of[rank] == -1, "%s, %d ranks, %d hosts: rank %d",
                topo_map_words[map], (int)size, (int)hosts, (int)rank);
      host_of[rank] = host;
      cr_assert(i == 0 || rank > rank_at[place - 1], "%s, %d ranks, %d hosts: rank %d out of order",
                topo_map_words[map], (int)size, (int)hosts, (int)rank);
    }
  }
}

static void expect_hosts(topo_map_t map, int32_t hosts, const char *digits) {
  int32_t host_of[RANKS_MAX], size = (int32_t)strlen(digits);
  char text[RANKS_MAX + 1] = "";
  host_of_ranks(map, size, hosts, host_of);
  for (int32_t rank = 0; rank < size; rank++) text[rank] = (char)('0' + host_of[rank]);
  cr_expect_str_eq(text, digits, "%s: %s, not %s", topo_map_words[map], text, digits);
}

Test(map, gives_each_rank_one_place) {
  int32_t host_of[RANKS_MAX];
  for (int map = 0; map < TOPO_MAP_COUNT; map++) {
    for (int32_t size = 1; size <= RANKS_MAX; size++) {
      for (int32_t hosts = 1; hosts <= HOSTS_MAX; hosts++) {
        host_of_ranks((topo_map_t)map, size, hosts, host_of);
      }
    }
  }
}

Test(map, by_host_fills_in_order) {
  expect_hosts(TOPO_MAP_BY_HOST, 3, "0000111222");
}

Test(map, by_rail_takes_hosts_in_turn) {
  expect_hosts(TOPO_MAP_BY_RAIL, 4, "0123012301230123");
  expect_hosts(TOPO_MAP_BY_RAIL, 3, "0120120120");
  expect_hosts(TOPO_MAP_BY_RAIL, 4, "012");
}

Test(map, grid_gives_hosts_tiles) {
  expect_hosts(TOPO_MAP_GRID, 4,
               "0033"
               "0033"
               "1122"
               "1122");
  expect_hosts(TOPO_MAP_GRID, 4,
               "00003333"
               "00003333"
               "00003333"
               "00003333"
               "11112222"
               "11112222"
               "11112222"
               "11112222");
  expect_hosts(TOPO_MAP_GRID, 4,
               "0033"
               "0033"
               "0033"
               "1122"
               "1122"
               "1122");
}

/* Where every host has one rank, the grid of hosts is that of ranks. */
Test(map, grid_keeps_hosts_of_one_rank_in_order) {
  expect_hosts(TOPO_MAP_GRID, 9, "012345678");
}

/* Neighbours of the process grid on different hosts. */
static int cut_of(topo_map_t map, int32_t size, int32_t hosts) {
  int32_t host_of[RANKS_MAX], rows, columns, cut = 0;
  topo_map_extents(size, &rows, &columns);
  cr_assert_eq(rows * columns, size);
  host_of_ranks(map, size, hosts, host_of);
  for (int32_t rank = 0; rank < size; rank++) {
    if (rank + columns < size) cut += host_of[rank] != host_of[rank + columns];
    if ((rank + 1) % columns != 0) cut += host_of[rank] != host_of[rank + 1];
  }
  return cut;
}

Test(map, grid_cuts_no_more_neighbours_than_the_others) {
  for (int32_t size = 1; size <= RANKS_MAX; size++) {
    for (int32_t hosts = 1; hosts <= HOSTS_MAX; hosts++) {
      int grid = cut_of(TOPO_MAP_GRID, size, hosts);
      cr_expect_leq(grid, cut_of(TOPO_MAP_BY_HOST, size, hosts), "%d ranks, %d hosts", (int)size,
                    (int)hosts);
    }
  }
  cr_expect_eq(cut_of(TOPO_MAP_GRID, 64, 4), 16);
  cr_expect_eq(cut_of(TOPO_MAP_BY_HOST, 64, 4), 24);
}

Test(map, moves_gpus_with_their_ranks) {
  topo_graph_t *graph;
  topo_placement_t placement;
  cr_assert_eq(topo_make("dgx-h100", 3, "rail", &graph), COLL_OK);
  cr_assert_eq(topo_place_mapped(graph, 8, TOPO_MAP_BY_RAIL, &placement), COLL_OK);
  for (int32_t rank = 0; rank < 8; rank++) {
    char name[TOPO_NAME_BYTES];
    snprintf(name, sizeof name, "host%d/gpu%d", (int)rank % 3, (int)rank / 3);
    cr_expect_str_eq(graph->nodes[placement.gpu_of[rank]].name, name);
    cr_expect_eq(placement.host_of[rank], topo_graph_host_of(graph, placement.gpu_of[rank]));
    cr_expect_eq(placement.layout->level[0].group_of[rank], rank % 3);
    cr_expect_eq(placement.layout->domain_of[rank], rank % 3);
  }
  topo_placement_free(&placement);
  topo_graph_free(graph);
}
