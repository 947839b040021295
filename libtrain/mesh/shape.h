/*
 * The shape of the mesh: how the ranks of a job are divided along the axes of parallelism. Plain
 * data and arithmetic, without communication.
 *
 * Axes: tensor (tp), context (cp), data (dp), pipeline (pp); their product is the number of ranks.
 * A rank has a place in the mesh, 0 to ranks - 1 (placement.h), and a place has a coordinate on
 * each axis. On the innermost axis neighbours have neighbouring places. The default order, from the
 * innermost, is that of Megatron-LM, "tp-cp-ep-dp-pp": what communicates most is nearest together
 * (Narayanan et al., Efficient large-scale language model training on GPU clusters, 2021).
 *
 * Experts cut the same ranks a second way: those of dp and cp, in order, into ep parts. Within a
 * part the experts' tensors are cut over etp ranks, 1 or tp.
 */
#ifndef LIBTRAIN_MESH_SHAPE_H
#define LIBTRAIN_MESH_SHAPE_H

#include <stdbool.h>

#include "base/status.h"

#define TRAIN_MESH_RANKS_MAX 65536

/* The kinds of groups of ranks. The first four are the axes. */
typedef enum train_mesh_group {
  TRAIN_MESH_TP,
  TRAIN_MESH_CP,
  TRAIN_MESH_DP,
  TRAIN_MESH_PP,
  TRAIN_MESH_DATA,        /* cp x dp: ranks with the same dense parameters reduce their gradients */
  TRAIN_MESH_EP,          /* among which tokens are exchanged: ranks with different experts */
  TRAIN_MESH_EXPERT_DATA, /* ranks with the same experts' parameters: cp x dp / ep, and with
                           * etp = 1 all tp of them */
  TRAIN_MESH_EMBEDDING,   /* first and last stage of a pipeline, which share the token table */
  TRAIN_MESH_GROUPS
} train_mesh_group_t;

#define TRAIN_MESH_AXES 4
#define TRAIN_MESH_ORDER "tp-cp-ep-dp-pp"

/* "tp", "cp", "dp", "pp", "data", "ep", "expert-data", "embedding". */
const char *train_mesh_group_name(train_mesh_group_t group);

typedef struct train_mesh_options {
  int size[TRAIN_MESH_AXES]; /* ranks along each axis; 0: not given. A single axis that is not given
                              * is derived from the number of ranks; of several, dp is derived, and
                              * the others are 1 */
  int ep;                    /* 0: 1 */
  int etp;                   /* 0: tp */
  const char *order;         /* from the innermost, such as "tp-cp-dp-pp"; NULL: the default. Axes
                              * of one rank may be left out. "ep" after "dp" and "cp" makes ranks
                              * with different experts those that are far apart */
} train_mesh_options_t;

typedef struct train_mesh_shape {
  int ranks;
  int size[TRAIN_MESH_GROUPS];               /* ranks in a group of each kind; embedding: 1 or 2 */
  train_mesh_group_t order[TRAIN_MESH_AXES]; /* axes from the innermost */
  int stride[TRAIN_MESH_AXES];               /* between the places of neighbours on the axis */
  int etp;
  bool experts_far; /* ranks of an ep group are far apart in cp x dp */
} train_mesh_shape_t;

/* COLL_ERROR_INVALID: axes that do not multiply to the number of ranks (the message has the nearest
 * shape that fits), an ep that does not divide dp x cp, an etp other than 1 and tp, or an order
 * with an unknown or repeated axis, or without one that has several ranks. */
coll_status_t train_mesh_shape_init(const train_mesh_options_t *options, int ranks,
                                    train_mesh_shape_t *shape);

/* Steps through the sizes of the axes whose product is `ranks`, tp slowest and pp fastest. Begins
 * with zeros; false after the last one. */
bool train_mesh_next_division(int ranks, int size[TRAIN_MESH_AXES]);

/* The rank of a place within its group of that kind: on an axis its coordinate; -1 if the place is
 * in no group (embedding: the middle stages). */
int train_mesh_coordinate(const train_mesh_shape_t *shape, train_mesh_group_t group, int place);

/* The number of a place's group of that kind, from 0 to train_mesh_group_count - 1; -1 if it is in
 * none. */
int train_mesh_group_of(const train_mesh_shape_t *shape, train_mesh_group_t group, int place);

int train_mesh_group_count(const train_mesh_shape_t *shape, train_mesh_group_t group);

/* places[size[group]] = the places in the group of that number, in the order of coordinates. */
void train_mesh_members(const train_mesh_shape_t *shape, train_mesh_group_t group, int number,
                        int *places);

/* The place with these coordinates. */
int train_mesh_place(const train_mesh_shape_t *shape, const int coordinates[TRAIN_MESH_AXES]);

#endif
