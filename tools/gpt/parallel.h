/* How gpt train, eval and sample divide the ranks and the model: the mesh, the groups of this rank
 * and its part. Of the settings, these only use those of parallel training. */
#ifndef TOOLS_GPT_PARALLEL_H
#define TOOLS_GPT_PARALLEL_H

#include "libtrain/mesh/mesh.h"
#include "libtrain/model/layout.h"
#include "libtrain/parallel/executor.h"
#include "libtrain/parallel/memory.h"
#include "libtrain/parallel/ranks.h"
#include "tools/gpt/partition.h"
#include "tools/gpt/settings.h"

typedef struct gpt_parallel {
  train_mesh_t *mesh;
  train_ranks_t ranks;
  train_layout_t *part;      /* what this rank holds */
  gpt_partition_t partition; /* of the layers into stages */
  train_slices_t slices;     /* of sequences, with --schedule terapipe */
} gpt_parallel_t;

/* Divides the ranks along the axes of parallelism, and shows that on rank 0. Collective, here and
 * in gpt_parallel_profile. The caller closes it in any case; *parallel must be zeroed. */
coll_status_t gpt_parallel_open(const gpt_settings_t *settings, const train_group_t *group,
                                gpt_parallel_t *parallel);

/* With --partition profile: measures the layers on rank 0, and prints their times. Before
 * gpt_parallel_divide. */
coll_status_t gpt_parallel_profile(const gpt_settings_t *settings,
                                   const train_model_config_t *config, train_pool_t *pool,
                                   gpt_parallel_t *parallel);

/* Divides the model. Not collective. COLL_ERROR_INVALID names the axis that does not fit and the
 * nearest size that does, of the mesh only if the model is from a file. */
coll_status_t gpt_parallel_divide(const gpt_settings_t *settings,
                                  const train_model_config_t *config, bool model_is_fixed,
                                  gpt_parallel_t *parallel);

void gpt_parallel_close(gpt_parallel_t *parallel);

/* The model options of this rank. COLL_ERROR_INVALID as gpt_settings_passes. */
coll_status_t gpt_parallel_passes(const gpt_settings_t *settings, const gpt_parallel_t *parallel,
                                  train_pool_t *pool, train_model_options_t *options);

/* Whether the schedule has too few micro-batches, or slices of them, for all stages to work at the
 * same time. */
bool gpt_parallel_is_starved(const gpt_settings_t *settings, const gpt_parallel_t *parallel);

/* Predicts the memory of this rank. Not collective. */
coll_status_t gpt_parallel_memory(const gpt_settings_t *settings, const gpt_parallel_t *parallel,
                                  train_pool_t *pool, train_memory_t *memory);

/* "2 ranks", or "8 ranks (tp 2, pp 2 1f1b)". */
#define GPT_PARALLEL_TEXT_BYTES 128
const char *gpt_parallel_text(const gpt_settings_t *settings, const gpt_parallel_t *parallel,
                              char text[GPT_PARALLEL_TEXT_BYTES]);

#endif
