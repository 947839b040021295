/*
 * The mesh of a job: its shape, where its ranks are, and for each kind of group the communicator of
 * this rank's group with the axis (parallel/axis.h) on top of it.
 */
#ifndef LIBTRAIN_MESH_MESH_H
#define LIBTRAIN_MESH_MESH_H

#include "libtrain/mesh/placement.h"
#include "libtrain/mesh/shape.h"
#include "libtrain/parallel/axis.h"

typedef struct train_mesh {
  train_group_t job;
  train_mesh_shape_t shape;
  train_placement_t placement;
  int place;                            /* of this rank */
  coll_comm_t comms[TRAIN_MESH_GROUPS]; /* owned; NULL: one rank, or shared with another */
  train_axis_t axes[TRAIN_MESH_GROUPS]; /* of one rank if this rank is in no such group */
} train_mesh_t;

/* Collective over the job, whose communicator must outlive the mesh. The mesh takes over the
 * placement, also on failure. The axis `data` uses the job's communicator if it is the whole job in
 * order; and `dp` that of `data` if cp is 1. All others have communicators of their own, because
 * they are used at the same time. */
coll_status_t train_mesh_create(const train_group_t *job, const train_mesh_shape_t *shape,
                                train_placement_t *placement, train_mesh_t **mesh);
void train_mesh_destroy(train_mesh_t *mesh);

/* This rank's coordinate in a group of a kind, -1 if it is in none; and the number of ranks there.
 */
static inline int train_mesh_rank(const train_mesh_t *mesh, train_mesh_group_t group) {
  return train_mesh_coordinate(&mesh->shape, group, mesh->place);
}
static inline int train_mesh_size(const train_mesh_t *mesh, train_mesh_group_t group) {
  return mesh->shape.size[group];
}

/* COLL_OK, or the first failure of an axis, in the order of the groups. */
coll_status_t train_mesh_status(const train_mesh_t *mesh);

/* After a failure with base_last_error: makes every axis fail and aborts all communicators, also
 * the job's, so that ranks which wait for this one in any of them return. Does nothing with
 * COLL_OK. */
void train_mesh_fail(train_mesh_t *mesh, coll_status_t status);

#endif
