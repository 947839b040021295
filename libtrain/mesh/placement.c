/* Hosts are numbered by their lowest rank; ranks are then sorted by host. */
#include "libtrain/mesh/placement.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"

static coll_status_t allocate(int ranks, train_placement_t *placement) {
  size_t count = (size_t)ranks;
  const char *what = "the placement of ranks";
  placement->ranks = ranks;
  COLL_TRY(base_alloc(count, sizeof(int), what, (void **)&placement->host_of));
  COLL_TRY(base_alloc(count, sizeof(int), what, (void **)&placement->rank_at));
  COLL_TRY(base_alloc(count, sizeof(int), what, (void **)&placement->place_of));
  return base_alloc(count, TRAIN_HOST_NAME_BYTES, what, (void **)&placement->host_names);
}

void train_placement_free(train_placement_t *placement) {
  free(placement->host_of);
  free(placement->rank_at);
  free(placement->place_of);
  free(placement->host_names);
  *placement = (train_placement_t){0};
}

/* Gives the places to the ranks of one host after another. */
static void set_places(train_placement_t *placement) {
  int place = 0;
  for (int host = 0; host < placement->hosts; host++) {
    for (int rank = 0; rank < placement->ranks; rank++) {
      if (placement->host_of[rank] != host) continue;
      placement->rank_at[place] = rank;
      placement->place_of[rank] = place++;
    }
  }
}

/* The lowest rank on the host of `rank`. */
static int first_on_host(const int *host_of, int rank) {
  int first = 0;
  while (host_of != NULL && host_of[first] != host_of[rank]) first++;
  return host_of != NULL ? first : 0;
}

coll_status_t train_placement_init(int ranks, const int *host_of, train_placement_t *placement) {
  *placement = (train_placement_t){0};
  coll_status_t status = allocate(ranks, placement);
  if (status != COLL_OK) {
    train_placement_free(placement);
    return status;
  }
  for (int rank = 0; rank < ranks; rank++) {
    int first = first_on_host(host_of, rank);
    placement->host_of[rank] = first == rank ? placement->hosts : placement->host_of[first];
    if (first != rank) continue;
    snprintf(placement->host_names[placement->hosts], TRAIN_HOST_NAME_BYTES, "host%d",
             placement->hosts);
    placement->hosts++;
  }
  set_places(placement);
  return COLL_OK;
}

/* host_of[rank]: the lowest rank with the same name. */
static coll_status_t number_hosts(int ranks, char (*names)[TRAIN_HOST_NAME_BYTES],
                                  train_placement_t *placement) {
  int *host_of;
  COLL_TRY(base_alloc((size_t)ranks, sizeof *host_of, "hosts of ranks", (void **)&host_of));
  for (int rank = 0; rank < ranks; rank++) {
    int first = 0;
    while (strcmp(names[first], names[rank]) != 0) first++;
    host_of[rank] = first;
  }
  coll_status_t status = train_placement_init(ranks, host_of, placement);
  for (int rank = 0; status == COLL_OK && rank < ranks; rank++) {
    memcpy(placement->host_names[placement->host_of[rank]], names[host_of[rank]],
           TRAIN_HOST_NAME_BYTES);
  }
  free(host_of);
  return status;
}

coll_status_t train_placement_discover(const train_group_t *group, train_placement_t *placement) {
  char(*names)[TRAIN_HOST_NAME_BYTES], own[TRAIN_HOST_NAME_BYTES] = "";
  coll_status_t status =
      base_alloc((size_t)group->size, sizeof *names, "names of hosts", (void **)&names);
  COLL_TRY(train_group_agree(group, status));
  gethostname(own, sizeof own - 1);
  status = train_group_check(group,
                             coll_allgather(own, names, sizeof own, COLL_INT8, group->comm, NULL));
  if (status == COLL_OK) {
    status = train_group_agree(group, number_hosts(group->size, names, placement));
  }
  free(names);
  return status;
}

coll_status_t train_placement_spread(const train_placement_t *placement,
                                     const train_mesh_shape_t *shape, train_mesh_group_t group,
                                     train_spread_t *spread) {
  int *places;
  *spread = (train_spread_t){.least = placement->ranks, .most = 0};
  COLL_TRY(
      base_alloc((size_t)shape->size[group], sizeof *places, "a group of ranks", (void **)&places));
  for (int number = 0; number < train_mesh_group_count(shape, group); number++) {
    int hosts = 0;
    train_mesh_members(shape, group, number, places);
    for (int i = 0; i < shape->size[group]; i++) {
      int first = 0, host = placement->host_of[placement->rank_at[places[i]]];
      while (placement->host_of[placement->rank_at[places[first]]] != host) first++;
      hosts += first == i;
    }
    if (hosts < spread->least) spread->least = hosts;
    if (hosts > spread->most) spread->most = hosts;
  }
  free(places);
  return COLL_OK;
}
