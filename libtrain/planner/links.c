/* Counts messages between hosts over all groups of a kind. All pairs of ranks exchange messages on
 * the context axis (Ulysses) and among experts only. */
#include <stdlib.h>

#include "base/alloc.h"
#include "libtrain/planner/parts.h"

typedef struct tally {
  int64_t crossing, all;
} tally_t;

static void add(const train_plan_machine_t *machine, int from, int to, tally_t *tally) {
  tally->crossing += machine->host_of[from] != machine->host_of[to];
  tally->all++;
}

static double share(const tally_t *tally) {
  return tally->all > 0 ? (double)tally->crossing / (double)tally->all : 0;
}

static void add_group(const train_plan_machine_t *machine, const int places[], int count,
                      tally_t *ring, tally_t *all) {
  for (int i = 0; i < count && count > 1; i++) {
    add(machine, places[i], places[(i + 1) % count], ring);
    for (int j = 0; j < count && all != NULL; j++) {
      if (j != i) add(machine, places[i], places[j], all);
    }
  }
}

static void add_stages(const train_plan_machine_t *machine, const int places[], int count,
                       tally_t *next, tally_t *first) {
  for (int i = 0; i + 1 < count; i++) add(machine, places[i], places[i + 1], next);
  if (count > 1) add(machine, places[count - 1], places[0], first);
}

/* members[group, coordinate] = place, for all groups of a kind. */
static void find_members(const train_mesh_shape_t *mesh, train_mesh_group_t group, int members[]) {
  for (int place = 0; place < mesh->ranks; place++) {
    int coordinate = train_mesh_coordinate(mesh, group, place);
    if (coordinate < 0) continue;
    members[train_mesh_group_of(mesh, group, place) * mesh->size[group] + coordinate] = place;
  }
}

static void count_kind(const train_mesh_shape_t *mesh, const train_plan_machine_t *machine,
                       train_mesh_group_t group, const int members[], plan_links_t *links) {
  bool pairs = group == TRAIN_MESH_CP || group == TRAIN_MESH_EP;
  tally_t ring = {0}, all = {0}, next = {0}, first = {0};
  int size = mesh->size[group], count = train_mesh_group_count(mesh, group);
  for (int number = 0; number < count; number++) {
    const int *places = members + number * size;
    add_group(machine, places, size, &ring, pairs ? &all : NULL);
    if (group == TRAIN_MESH_PP) add_stages(machine, places, size, &next, &first);
  }
  links->ring[group] = share(&ring);
  links->all[group] = share(&all);
  if (group != TRAIN_MESH_PP) return;
  links->next_stage = share(&next);
  links->first_stage = share(&first);
}

coll_status_t plan_links_init(const train_mesh_shape_t *mesh, const train_plan_machine_t *machine,
                              plan_links_t *links) {
  void *memory;
  *links = (plan_links_t){0};
  COLL_TRY(base_alloc((size_t)mesh->ranks, sizeof(int), "groups", &memory));
  int *members = memory;
  for (int group = 0; group < TRAIN_MESH_GROUPS; group++) {
    find_members(mesh, (train_mesh_group_t)group, members);
    count_kind(mesh, machine, (train_mesh_group_t)group, members, links);
  }
  free(members);
  return COLL_OK;
}
