/*
 * All arrays of the passes lie in one arena. The same code first computes the arena's size and
 * then, with the arena allocated, assigns the arrays.
 */
#include "libtrain/model/activations.h"

#include <stdlib.h>
#include <sys/mman.h>

#include "base/memory.h"

#define HUGE_PAGE ((size_t)2 << 20)

typedef struct carver {
  char *arena; /* NULL while the size is computed */
  size_t used; /* bytes */
  train_dtype_t dtype;
} carver_t;

/* Which arrays each block has of its own; the others are shared by all blocks. */
typedef struct owned {
  bool attention, qkv, mlp, out;
} owned_t;

static owned_t owned_by_blocks(const train_model_options_t *options) {
  if (options->forward_only) return (owned_t){.qkv = true};
  bool all = options->recompute == TRAIN_RECOMPUTE_NONE;
  return (owned_t){.attention = all,
                   .qkv = all,
                   .mlp = options->recompute != TRAIN_RECOMPUTE_BLOCK,
                   .out = true};
}

static carver_t carver_of(const train_model_options_t *options) {
  return (carver_t){.dtype = train_precision_stored(options->precision, TRAIN_KIND_ACTIVATIONS)};
}

static void *carve_bytes(carver_t *carver, size_t bytes) {
  void *array = carver->arena != NULL ? carver->arena + carver->used : NULL;
  carver->used += base_round_up(bytes, BASE_CACHE_LINE);
  return array;
}

static void *carve(carver_t *carver, size_t rows, size_t columns) {
  return carve_bytes(carver, rows * columns * train_dtype_bytes(carver->dtype));
}

static float *carve_floats(carver_t *carver, size_t count) {
  return carve_bytes(carver, count * sizeof(float));
}

static void carve_block(carver_t *carver, const train_model_config_t *config, size_t rows,
                        const owned_t *owned, block_activations_t *block) {
  size_t width = (size_t)config->width;
  if (owned->attention) {
    block->normed1 = carve(carver, rows, width);
    block->mean1 = carve_floats(carver, rows);
    block->rstd1 = carve_floats(carver, rows);
    block->attended = carve(carver, rows, width);
    block->log_sums = carve_floats(carver, rows * (size_t)config->heads);
  }
  if (owned->qkv) block->qkv = carve(carver, rows, 3 * width);
  if (owned->mlp) {
    block->mid_stream = carve(carver, rows, width);
    block->normed2 = carve(carver, rows, width);
    block->mean2 = carve_floats(carver, rows);
    block->rstd2 = carve_floats(carver, rows);
    block->hidden = carve(carver, rows, 4 * width);
    block->active = carve(carver, rows, 4 * width);
  }
  if (owned->out) block->out = carve(carver, rows, width);
}

static size_t rows_of(const train_model_config_t *config, const train_model_options_t *options) {
  return (size_t)options->sequences * (size_t)config->context;
}

static size_t scratch_of(const train_model_config_t *config, const train_model_options_t *options) {
  const train_ops_sizes_t sizes = {
      .rows = (int)rows_of(config, options),
      .length = config->context,
      .heads = config->heads,
      .width = config->width,
      .vocabulary = config->vocabulary,
      .dtype = train_precision_stored(options->precision, TRAIN_KIND_ACTIVATIONS),
      .threads = train_pool_threads(options->pool),
      .training = !options->forward_only};
  return options->ops->scratch_floats(&sizes);
}

/* activations->blocks may be NULL while the size is computed. */
static void carve_all(carver_t *carver, const train_model_config_t *config,
                      const train_model_options_t *options, train_activations_t *activations) {
  size_t width = (size_t)config->width, rows = rows_of(config, options);
  const owned_t owned = owned_by_blocks(options);
  const owned_t shared = {!owned.attention, !owned.qkv, !owned.mlp, !owned.out};
  block_activations_t common = {0};
  carve_block(carver, config, rows, &shared, &common);
  activations->embedded = carve(carver, rows, width);
  for (int layer = 0; layer < config->layers; layer++) {
    block_activations_t block = common;
    carve_block(carver, config, rows, &owned, &block);
    if (activations->blocks != NULL) activations->blocks[layer] = block;
  }
  activations->normed = carve(carver, rows, width);
  activations->mean = carve_floats(carver, rows);
  activations->rstd = carve_floats(carver, rows);
  if (!options->forward_only) {
    activations->d_stream = carve(carver, rows, width);
    activations->d_narrow = carve(carver, rows, width);
    activations->d_wide = carve(carver, rows, 4 * width);
  }
  activations->scratch = carve_floats(carver, scratch_of(config, options));
}

size_t train_activations_bytes(const train_model_config_t *config,
                               const train_model_options_t *options) {
  carver_t carver = carver_of(options);
  train_activations_t unused = {0};
  carve_all(&carver, config, options, &unused);
  return carver.used;
}

/* Requests huge pages, because the passes access the arena with large strides. */
static coll_status_t allocate_arena(size_t bytes, int sequences, void **arena) {
  size_t rounded = base_round_up(bytes, HUGE_PAGE);
  void *memory = aligned_alloc(HUGE_PAGE, rounded);
  if (memory == NULL) {
    return base_fail(COLL_ERROR_MEMORY,
                     "out of memory: %zu MiB of activations for %d sequences; lower --batch",
                     bytes >> 20, sequences);
  }
  madvise(memory, rounded, MADV_HUGEPAGE);
  *arena = memory;
  return COLL_OK;
}

coll_status_t train_activations_create(const train_model_config_t *config,
                                       const train_model_options_t *options,
                                       train_activations_t **activations) {
  void *memory;
  COLL_TRY(base_alloc(1, sizeof(train_activations_t), "the activations", &memory));
  train_activations_t *created = memory;
  coll_status_t status =
      base_alloc((size_t)config->layers, sizeof(block_activations_t), "the activations", &memory);
  if (status != COLL_OK) goto failed;
  created->blocks = memory;
  status = base_alloc(rows_of(config, options), sizeof(int32_t), "the tokens", &memory);
  if (status != COLL_OK) goto failed;
  created->tokens = memory;
  status =
      allocate_arena(train_activations_bytes(config, options), options->sequences, &created->arena);
  if (status != COLL_OK) goto failed;
  carver_t carver = carver_of(options);
  carver.arena = created->arena;
  carve_all(&carver, config, options, created);
  *activations = created;
  return COLL_OK;
failed:
  train_activations_destroy(created);
  return status;
}

void train_activations_destroy(train_activations_t *activations) {
  if (activations == NULL) return;
  free(activations->arena);
  free(activations->tokens);
  free(activations->blocks);
  free(activations);
}
