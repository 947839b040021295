/* Takes groups and axes from the mesh. */
#include "libtrain/parallel/ranks.h"

#include "libtrain/mesh/mesh.h"

static train_axis_t *axis_of(train_mesh_t *mesh, train_mesh_group_t group) {
  bool alone = mesh->shape.size[group] == 1 || train_mesh_rank(mesh, group) < 0;
  return alone ? NULL : &mesh->axes[group];
}

train_ranks_t train_ranks_of_mesh(train_mesh_t *mesh, bool sequence_parallel,
                                  train_context_kind_t context_kind) {
  train_ranks_t ranks = {.all = mesh->job,
                         .data = mesh->axes[TRAIN_MESH_DATA].group,
                         .experts = mesh->axes[TRAIN_MESH_EXPERT_DATA].group,
                         .share = train_mesh_rank(mesh, TRAIN_MESH_DP),
                         .shares = train_mesh_size(mesh, TRAIN_MESH_DP),
                         .stage = train_mesh_rank(mesh, TRAIN_MESH_PP),
                         .stages = train_mesh_size(mesh, TRAIN_MESH_PP),
                         .pipeline = mesh->axes[TRAIN_MESH_PP].group,
                         .embedding = axis_of(mesh, TRAIN_MESH_EMBEDDING)};
  ranks.axes = (train_model_axes_t){.tensor = axis_of(mesh, TRAIN_MESH_TP),
                                    .context = axis_of(mesh, TRAIN_MESH_CP),
                                    .context_kind = context_kind,
                                    .experts = axis_of(mesh, TRAIN_MESH_EP)};
  ranks.axes.sequence_parallel = sequence_parallel && ranks.axes.tensor != NULL;
  ranks.leads = ranks.stage == 0 && train_mesh_rank(mesh, TRAIN_MESH_TP) == 0 &&
                train_mesh_rank(mesh, TRAIN_MESH_CP) == 0;
  return ranks;
}

train_part_t train_ranks_cut(const train_mesh_t *mesh, int layers, int chunks, const int *blocks) {
  train_part_t part = train_part_cut(layers, train_mesh_rank(mesh, TRAIN_MESH_PP),
                                     train_mesh_size(mesh, TRAIN_MESH_PP), chunks, blocks);
  part.tensor_rank = train_mesh_rank(mesh, TRAIN_MESH_TP);
  part.tensor_ranks = train_mesh_size(mesh, TRAIN_MESH_TP);
  part.expert_rank = train_mesh_rank(mesh, TRAIN_MESH_EP);
  part.expert_ranks = train_mesh_size(mesh, TRAIN_MESH_EP);
  part.whole_experts = mesh->shape.etp < part.tensor_ranks;
  return part;
}

train_part_t train_ranks_part(const train_mesh_t *mesh, int layers, int chunks) {
  return train_ranks_cut(mesh, layers, chunks, NULL);
}
