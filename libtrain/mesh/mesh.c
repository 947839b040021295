/* Splits the job's communicator once for each kind of group of several ranks. */
#include "libtrain/mesh/mesh.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"

/* Whether the group is the whole job, with the ranks in the job's order. */
static bool is_job(const train_mesh_t *mesh, train_mesh_group_t group) {
  if (mesh->shape.size[group] != mesh->job.size) return false;
  for (int place = 0; place < mesh->job.size; place++) {
    int coordinate = train_mesh_coordinate(&mesh->shape, group, place);
    if (coordinate != mesh->placement.rank_at[place]) return false;
  }
  return true;
}

/* The communicator for an axis that it shares with another; NULL: none. */
static coll_comm_t shared_comm(const train_mesh_t *mesh, train_mesh_group_t group) {
  bool is_all_data = group == TRAIN_MESH_DP && mesh->shape.size[TRAIN_MESH_CP] == 1;
  if (group != TRAIN_MESH_DATA && !is_all_data) return NULL;
  if (is_job(mesh, TRAIN_MESH_DATA)) return mesh->job.comm;
  return is_all_data ? mesh->axes[TRAIN_MESH_DATA].group.comm : NULL;
}

#define NUMBER_BYTES 13

/* "pp of ranks 0 4 8 12", with the first few ranks of the job. */
static coll_status_t name_axis(train_mesh_t *mesh, train_mesh_group_t group) {
  train_axis_t *axis = &mesh->axes[group];
  int *places, number = train_mesh_group_of(&mesh->shape, group, mesh->place);
  size_t used;
  if (axis->group.size == 1) return COLL_OK;
  COLL_TRY(
      base_alloc((size_t)axis->group.size, sizeof *places, "a group of ranks", (void **)&places));
  train_mesh_members(&mesh->shape, group, number, places);
  used =
      (size_t)snprintf(axis->name, sizeof axis->name, "%s of ranks", train_mesh_group_name(group));
  for (int i = 0; i < axis->group.size; i++) {
    bool is_full = used + NUMBER_BYTES + sizeof " ..." > sizeof axis->name;
    char number_text[NUMBER_BYTES];
    snprintf(number_text, sizeof number_text, " %d", mesh->placement.rank_at[places[i]]);
    used += (size_t)snprintf(axis->name + used, sizeof axis->name - used, "%s",
                             is_full ? " ..." : number_text);
    if (is_full) break;
  }
  free(places);
  return COLL_OK;
}

static coll_status_t create_axis(train_mesh_t *mesh, train_mesh_group_t group) {
  coll_comm_t comm = shared_comm(mesh, group);
  int coordinate = train_mesh_coordinate(&mesh->shape, group, mesh->place);
  if (mesh->shape.size[group] > 1 && comm == NULL) {
    int color = train_mesh_group_of(&mesh->shape, group, mesh->place);
    COLL_TRY(train_group_check(
        &mesh->job, coll_comm_split(mesh->job.comm, color, coordinate, NULL, &mesh->comms[group])));
    comm = mesh->comms[group];
  }
  COLL_TRY(train_axis_init(mesh->shape.size[group] > 1 ? comm : NULL, &mesh->axes[group]));
  return name_axis(mesh, group);
}

/* dp comes after data, whose communicator it may share. */
static coll_status_t create_axes(train_mesh_t *mesh) {
  static const train_mesh_group_t order[TRAIN_MESH_GROUPS] = {
      TRAIN_MESH_DATA, TRAIN_MESH_DP, TRAIN_MESH_TP,          TRAIN_MESH_CP,
      TRAIN_MESH_PP,   TRAIN_MESH_EP, TRAIN_MESH_EXPERT_DATA, TRAIN_MESH_EMBEDDING};
  for (int i = 0; i < TRAIN_MESH_GROUPS; i++) COLL_TRY(create_axis(mesh, order[i]));
  return COLL_OK;
}

coll_status_t train_mesh_create(const train_group_t *job, const train_mesh_shape_t *shape,
                                train_placement_t *placement, train_mesh_t **mesh) {
  train_mesh_t *made;
  coll_status_t status = base_alloc(1, sizeof *made, "the mesh", (void **)&made);
  status = train_group_agree(job, status);
  if (status != COLL_OK) {
    train_placement_free(placement);
    return status;
  }
  made->job = *job;
  made->shape = *shape;
  made->placement = *placement;
  *placement = (train_placement_t){0};
  made->place = made->placement.place_of[job->rank];
  for (int group = 0; group < TRAIN_MESH_GROUPS; group++) made->axes[group].group.size = 1;
  status = create_axes(made);
  if (status != COLL_OK) {
    train_mesh_destroy(made);
    return status;
  }
  *mesh = made;
  return COLL_OK;
}

void train_mesh_destroy(train_mesh_t *mesh) {
  if (mesh == NULL) return;
  for (int group = 0; group < TRAIN_MESH_GROUPS; group++) train_axis_free(&mesh->axes[group]);
  for (int group = 0; group < TRAIN_MESH_GROUPS; group++) {
    if (mesh->comms[group] != NULL) coll_comm_destroy(mesh->comms[group]);
  }
  train_placement_free(&mesh->placement);
  free(mesh);
}

coll_status_t train_mesh_status(const train_mesh_t *mesh) {
  for (int group = 0; group < TRAIN_MESH_GROUPS; group++) {
    COLL_TRY(train_axis_status(&mesh->axes[group]));
  }
  return COLL_OK;
}

void train_mesh_fail(train_mesh_t *mesh, coll_status_t status) {
  if (status == COLL_OK) return;
  for (int group = 0; group < TRAIN_MESH_GROUPS; group++) {
    train_axis_fail(&mesh->axes[group], status);
  }
  if (coll_comm_error(mesh->job.comm) == COLL_OK) coll_comm_abort(mesh->job.comm);
}
