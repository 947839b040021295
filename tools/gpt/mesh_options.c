/* Options, and showing the mesh. */
#include "tools/gpt/mesh_options.h"

#include <stdio.h>
#include <string.h>

#include "libtrain/mesh/show.h"

void gpt_mesh_options(gpt_mesh_settings_t *mesh, base_option_t options[GPT_MESH_OPTIONS]) {
  int64_t *size = mesh->size;
  const base_option_t all[GPT_MESH_OPTIONS] = {
      {0, "tp", BASE_OPTION_INTEGER, &size[TRAIN_MESH_TP], "N",
       "tensor parallelism: ranks that divide each layer; of tp, cp, dp and pp one is derived", 0,
       TRAIN_MESH_RANKS_MAX},
      {0, "cp", BASE_OPTION_INTEGER, &size[TRAIN_MESH_CP], "N",
       "context parallelism: ranks that divide each sequence", 0, TRAIN_MESH_RANKS_MAX},
      {0, "dp", BASE_OPTION_INTEGER, &size[TRAIN_MESH_DP], "N",
       "data parallelism: ranks that divide the batch", 0, TRAIN_MESH_RANKS_MAX},
      {0, "pp", BASE_OPTION_INTEGER, &size[TRAIN_MESH_PP], "N",
       "pipeline parallelism: stages, each with some of the layers", 0, TRAIN_MESH_RANKS_MAX},
      {0, "ep", BASE_OPTION_INTEGER, &mesh->ep, "N",
       "expert parallelism: parts of the experts; divides dp x cp", 0, TRAIN_MESH_RANKS_MAX},
      {0, "etp", BASE_OPTION_INTEGER, &mesh->etp, "N",
       "ranks that divide each expert: tp, or 1: tensor ranks have whole experts; 0: tp", 0,
       TRAIN_MESH_RANKS_MAX},
      {0, "order", BASE_OPTION_TEXT, &mesh->order, "AXES",
       "axes from the innermost, which is inside a host; default " TRAIN_MESH_ORDER}};
  memcpy(options, all, sizeof all);
}

coll_status_t gpt_mesh_shape(const gpt_mesh_settings_t *mesh, int ranks,
                             train_mesh_shape_t *shape) {
  train_mesh_options_t options = {.ep = (int)mesh->ep, .etp = (int)mesh->etp, .order = mesh->order};
  for (int axis = 0; axis < TRAIN_MESH_AXES; axis++) options.size[axis] = (int)mesh->size[axis];
  return train_mesh_shape_init(&options, ranks, shape);
}

static coll_status_t draw(const char *path, const train_mesh_shape_t *shape,
                          const train_placement_t *placement) {
  FILE *out = fopen(path, "w");
  if (out == NULL) return base_fail_errno(COLL_ERROR_SYSTEM, "cannot write %s", path);
  coll_status_t status = train_mesh_draw(shape, placement, out);
  bool failed = ferror(out) != 0;
  if (fclose(out) != 0) failed = true;
  if (status == COLL_OK && failed) {
    status = base_fail_errno(COLL_ERROR_SYSTEM, "cannot write %s", path);
  }
  return status;
}

coll_status_t gpt_mesh_show(const gpt_mesh_settings_t *mesh, const train_mesh_shape_t *shape,
                            const train_placement_t *placement) {
  if (mesh->show) COLL_TRY(train_mesh_table(shape, placement, stdout));
  return mesh->draw != NULL ? draw(mesh->draw, shape, placement) : COLL_OK;
}
