/* Creates a model, which consists of its options and its activations. */
#include "libtrain/model/model.h"

#include <assert.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "libtrain/model/activations.h"

static coll_status_t initialize(train_model_t *model) {
  const train_model_options_t *options = &model->options;
  train_exec_t *exec = &model->exec;
  COLL_TRY(train_activations_create(model->layout, options, &model->activations));
  exec->pool = options->pool;
  exec->dtype = train_precision_stored(options->precision, TRAIN_KIND_ACTIVATIONS);
  exec->scratch = model->activations->scratch;
  return train_gemm_create(options->pool, &exec->gemm);
}

coll_status_t train_model_create(const train_layout_t *layout, const train_model_options_t *options,
                                 train_model_t **model) {
  assert(options->sequences >= 1);
  void *memory;
  COLL_TRY(base_alloc(1, sizeof(train_model_t), "a model", &memory));
  train_model_t *created = memory;
  *created = (train_model_t){.layout = layout, .options = *options};
  if (created->options.ops == NULL) created->options.ops = &train_ops_host;
  coll_status_t status = initialize(created);
  if (status != COLL_OK) {
    train_model_destroy(created);
    return status;
  }
  *model = created;
  return COLL_OK;
}

void train_model_destroy(train_model_t *model) {
  if (model == NULL) return;
  train_gemm_destroy(model->exec.gemm);
  train_activations_destroy(model->activations);
  free(model);
}

size_t train_model_bytes(const train_layout_t *layout, const train_model_options_t *options) {
  train_model_options_t complete = *options;
  if (complete.ops == NULL) complete.ops = &train_ops_host;
  return train_activations_bytes(layout, &complete) +
         train_gemm_bytes(train_pool_threads(options->pool));
}
