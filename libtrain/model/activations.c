/*
 * The arrays of a forward and a backward pass, carved from one arena. The layout is written once
 * and walked twice: with no arena to add up the size, and again to hand out the places.
 */
#include <stdlib.h>

#include "base/memory.h"
#include "libtrain/model/internal.h"

#define LINE_FLOATS (BASE_CACHE_LINE / sizeof(float))

typedef struct carver {
  float *arena; /* NULL while measuring */
  size_t used;  /* floats */
} carver_t;

static void carve(carver_t *carver, size_t rows, size_t columns, float **place) {
  if (carver->arena != NULL) *place = carver->arena + carver->used;
  carver->used += base_round_up(rows * columns, LINE_FLOATS);
}

static void carve_block(carver_t *carver, const train_model_config_t *config, size_t rows,
                        block_activations_t *block) {
  size_t width = (size_t)config->width;
  carve(carver, rows, width, &block->normed1);
  carve(carver, rows, 1, &block->mean1);
  carve(carver, rows, 1, &block->rstd1);
  carve(carver, rows, 3 * width, &block->qkv);
  carve(carver, rows * (size_t)config->heads, (size_t)config->context, &block->weights);
  carve(carver, rows, width, &block->attended);
  carve(carver, rows, width, &block->middle);
  carve(carver, rows, width, &block->normed2);
  carve(carver, rows, 1, &block->mean2);
  carve(carver, rows, 1, &block->rstd2);
  carve(carver, rows, 4 * width, &block->hidden);
  carve(carver, rows, 4 * width, &block->active);
  carve(carver, rows, width, &block->out);
}

static void carve_all(carver_t *carver, const train_model_config_t *config, size_t rows,
                      train_activations_t *activations) {
  size_t width = (size_t)config->width, context = (size_t)config->context;
  carve(carver, rows, width, &activations->embedded);
  for (int layer = 0; layer < config->layers; layer++) {
    block_activations_t unused;
    carve_block(carver, config, rows,
                carver->arena != NULL ? &activations->blocks[layer] : &unused);
  }
  carve(carver, rows, width, &activations->normed);
  carve(carver, rows, 1, &activations->mean);
  carve(carver, rows, 1, &activations->rstd);
  carve(carver, rows, (size_t)config->vocabulary, &activations->logits);
  carve(carver, rows, 1, &activations->losses);
  carve(carver, rows, width, &activations->projected);
  carve(carver, rows, width, &activations->d_stream);
  carve(carver, rows, width, &activations->d_narrow);
  carve(carver, rows, 4 * width, &activations->d_wide);
  carve(carver, context, context, &activations->scratch);
}

size_t train_model_bytes(const train_layout_t *layout, const train_model_options_t *options) {
  const train_model_config_t *config = &layout->config;
  size_t rows = (size_t)options->sequences * (size_t)config->context;
  carver_t carver = {0};
  train_activations_t unused;
  carve_all(&carver, config, rows, &unused);
  return carver.used * sizeof(float) + rows * sizeof(int32_t);
}

coll_status_t train_activations_create(const train_model_config_t *config, int sequences,
                                       train_activations_t **activations) {
  void *memory;
  COLL_TRY(base_alloc(1, sizeof(train_activations_t), "the activations", &memory));
  train_activations_t *created = memory;
  size_t rows = (size_t)sequences * (size_t)config->context;
  coll_status_t status =
      base_alloc((size_t)config->layers, sizeof(block_activations_t), "the activations", &memory);
  if (status != COLL_OK) goto failed;
  created->blocks = memory;
  status = base_alloc(rows, sizeof(int32_t), "the tokens", &memory);
  if (status != COLL_OK) goto failed;
  created->tokens = memory;
  carver_t carver = {0};
  carve_all(&carver, config, rows, created);
  created->arena = aligned_alloc(BASE_CACHE_LINE, carver.used * sizeof(float));
  if (created->arena == NULL) {
    status = base_fail(COLL_ERROR_MEMORY,
                       "out of memory: %zu MiB of activations for %d sequences; lower --batch",
                       carver.used * sizeof(float) >> 20, sequences);
    goto failed;
  }
  carver = (carver_t){.arena = created->arena};
  carve_all(&carver, config, rows, created);
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
