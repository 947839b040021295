/* The options of the mesh, which gpt train and gpt mesh have, and what follows from them. */
#ifndef TOOLS_GPT_MESH_OPTIONS_H
#define TOOLS_GPT_MESH_OPTIONS_H

#include "base/options.h"
#include "libtrain/mesh/placement.h"

typedef struct gpt_mesh_settings {
  int64_t size[TRAIN_MESH_AXES]; /* 0: derived */
  int64_t ep, etp;               /* 0: 1, tp */
  const char *order;             /* NULL: the default */
  bool show;                     /* --show-mesh */
  const char *draw;              /* --draw-mesh; NULL: no picture */
} gpt_mesh_settings_t;

/* --tp, --cp, --dp, --pp, --ep, --etp, --order. */
#define GPT_MESH_OPTIONS 7
void gpt_mesh_options(gpt_mesh_settings_t *mesh, base_option_t options[GPT_MESH_OPTIONS]);

coll_status_t gpt_mesh_shape(const gpt_mesh_settings_t *mesh, int ranks, train_mesh_shape_t *shape);

/* Where the ranks of the group are: on the hosts of COLL_TOPO_FILE, as libcoll takes them to be, or
 * else on those that they run on. Collective. */
coll_status_t gpt_mesh_place(const train_group_t *group, train_placement_t *placement);

/* On the hosts of a topology (topo/load.h), filled evenly in the order of the map, one of
 * topo_map_words; NULL: by-host. */
coll_status_t gpt_mesh_place_on(const char *topology, const char *map, int ranks, FILE *warnings,
                                train_placement_t *placement);

/* Prints and draws the mesh as the settings say. */
coll_status_t gpt_mesh_show(const gpt_mesh_settings_t *mesh, const train_mesh_shape_t *shape,
                            const train_placement_t *placement);

#endif
