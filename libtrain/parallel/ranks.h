/*
 * The ranks with which a rank trains one model: all of the job, those that hold the same part of
 * the model, and those along the axes over which its passes communicate.
 */
#ifndef LIBTRAIN_PARALLEL_RANKS_H
#define LIBTRAIN_PARALLEL_RANKS_H

#include "libtrain/model/model_options.h"
#include "libtrain/parallel/axis.h"
#include "libtrain/shard/part.h"

/* Groups and axes belong to the caller. */
typedef struct train_ranks {
  train_group_t all;
  train_group_t data;      /* hold the same part of the model, and sum its gradients: the data ranks
                            * and the context ranks */
  train_group_t experts;   /* hold the same experts: those of the data group, or of the data groups
                            * of all tensor ranks where experts are whole (etp 1) */
  int share, shares;       /* of the batch: the coordinate of this rank on the data axis */
  bool leads;              /* of the ranks that compute a share of the batch together, the first */
  int stage, stages;       /* of the pipeline */
  train_model_axes_t axes; /* within a stage */
  train_group_t pipeline;  /* the stages of this rank's pipeline */
  train_axis_t *embedding; /* first and last stage of it, on these two; NULL: no copy of the token
                            * table exists */
} train_ranks_t;

/* Data parallelism only: every rank holds the whole model. */
static inline train_ranks_t train_ranks_data_parallel(const train_group_t *group) {
  return (train_ranks_t){.all = *group,
                         .data = *group,
                         .experts = *group,
                         .share = group->rank,
                         .shares = group->size,
                         .leads = true,
                         .stages = 1};
}

/* The ranks of a mesh, which must outlive them. */
struct train_mesh;
train_ranks_t train_ranks_of_mesh(struct train_mesh *mesh, bool sequence_parallel,
                                  train_context_kind_t context_kind);

/* The part of a model of that many layers that this rank of the mesh holds, with `chunks` virtual
 * stages on each stage: layers are divided evenly, earlier stages having fewer. */
train_part_t train_ranks_part(const struct train_mesh *mesh, int layers, int chunks);

/* The same with blocks[stages * chunks] layers on each virtual stage; NULL: evenly. */
train_part_t train_ranks_cut(const struct train_mesh *mesh, int layers, int chunks,
                             const int *blocks);

#endif
