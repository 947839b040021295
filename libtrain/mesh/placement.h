/*
 * Which rank of the job is at which place of the mesh. Places are given to the hosts in the order
 * of their lowest rank, and within a host to its ranks in order, so that the innermost axes are
 * inside a host, also where the launcher deals ranks out to the hosts in turn.
 */
#ifndef LIBTRAIN_MESH_PLACEMENT_H
#define LIBTRAIN_MESH_PLACEMENT_H

#include "libtrain/mesh/shape.h"
#include "libtrain/parallel/group.h"

#define TRAIN_HOST_NAME_BYTES 64

typedef struct train_placement {
  int ranks, hosts;
  int *host_of;                              /* [ranks]: by rank; numbered by their lowest rank */
  int *rank_at;                              /* [ranks]: by place */
  int *place_of;                             /* [ranks]: by rank */
  char (*host_names)[TRAIN_HOST_NAME_BYTES]; /* [hosts] */
} train_placement_t;

/* host_of[ranks] may number hosts in any way; NULL: all ranks are on one. Hosts are named "host0"
 * and so on. Owned by the caller until train_placement_free. COLL_ERROR_MEMORY. */
coll_status_t train_placement_init(int ranks, const int *host_of, train_placement_t *placement);

/* By the names of the hosts that the ranks of the group run on. Collective. */
coll_status_t train_placement_discover(const train_group_t *group, train_placement_t *placement);

void train_placement_free(train_placement_t *placement);

/* How the groups of a kind lie on the hosts. */
typedef struct train_spread {
  int least, most; /* hosts of a group */
} train_spread_t;

/* COLL_ERROR_MEMORY. */
coll_status_t train_placement_spread(const train_placement_t *placement,
                                     const train_mesh_shape_t *shape, train_mesh_group_t group,
                                     train_spread_t *spread);

#endif
