/* Places follow the hosts, whichever way ranks are dealt out to them. */
#include <criterion/criterion.h>

#include "libtrain/mesh/placement.h"

static void expect_spread(const train_placement_t *placement, const train_mesh_shape_t *shape,
                          train_mesh_group_t group, int least, int most) {
  train_spread_t spread;
  cr_assert_eq(train_placement_spread(placement, shape, group, &spread), COLL_OK);
  cr_assert(spread.least == least && spread.most == most, "%s: %d to %d hosts",
            train_mesh_group_name(group), spread.least, spread.most);
}

Test(mesh_placement, tensor_groups_stay_inside_a_host) {
  enum { HOSTS = 4, RANKS = 16 };
  train_mesh_shape_t shape;
  train_placement_t placement;
  int host_of[RANKS];
  for (int way = 0; way < 3; way++) {
    for (int rank = 0; rank < RANKS; rank++) {
      host_of[rank] = way == 0 ? rank / 4 : way == 1 ? rank % 4 : (rank * 7 + 3) % 4 + 9;
    }
    cr_assert_eq(train_placement_init(RANKS, host_of, &placement), COLL_OK);
    cr_assert_eq(
        train_mesh_shape_init(&(train_mesh_options_t){.size = {4, 0, 2, 2}}, RANKS, &shape),
        COLL_OK);
    cr_assert_eq(placement.hosts, HOSTS);
    cr_assert_eq(placement.host_of[0], 0);
    for (int rank = 0; rank < RANKS; rank++) {
      cr_assert_eq(placement.rank_at[placement.place_of[rank]], rank);
    }
    expect_spread(&placement, &shape, TRAIN_MESH_TP, 1, 1);
    expect_spread(&placement, &shape, TRAIN_MESH_DP, 2, 2);
    expect_spread(&placement, &shape, TRAIN_MESH_PP, 2, 2);
    train_placement_free(&placement);
  }
}

Test(mesh_placement, uneven_hosts_cut_some_groups) {
  const int host_of[8] = {0, 0, 0, 1, 1, 1, 1, 1};
  train_mesh_shape_t shape;
  train_placement_t placement;
  cr_assert_eq(train_placement_init(8, host_of, &placement), COLL_OK);
  cr_assert_eq(train_mesh_shape_init(&(train_mesh_options_t){.size = {2, 0, 0, 0}}, 8, &shape),
               COLL_OK);
  expect_spread(&placement, &shape, TRAIN_MESH_TP, 1, 2);
  expect_spread(&placement, &shape, TRAIN_MESH_CP, 1, 1);
  train_placement_free(&placement);
}

Test(mesh_placement, without_hosts_places_are_ranks) {
  train_placement_t placement;
  cr_assert_eq(train_placement_init(5, NULL, &placement), COLL_OK);
  cr_assert_eq(placement.hosts, 1);
  cr_assert_str_eq(placement.host_names[0], "host0");
  for (int rank = 0; rank < 5; rank++) cr_assert_eq(placement.rank_at[rank], rank);
  train_placement_free(&placement);
}
