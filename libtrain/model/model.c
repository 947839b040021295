/* Creates a model, which consists of its options and its activations. */
#include "libtrain/model/model.h"

#include <assert.h>
#include <stdlib.h>

#include "base/memory.h"
#include "libtrain/model/activations.h"

coll_status_t train_model_create(const train_layout_t *layout, const train_model_options_t *options,
                                 train_model_t **model) {
  assert(options->sequences >= 1);
  void *memory;
  COLL_TRY(base_alloc(1, sizeof(train_model_t), "a model", &memory));
  train_model_t *created = memory;
  *created = (train_model_t){.layout = layout, .options = *options};
  if (created->options.ops == NULL) created->options.ops = &train_ops_host;
  coll_status_t status =
      train_activations_create(&layout->config, &created->options, &created->activations);
  if (status != COLL_OK) {
    free(created);
    return status;
  }
  *model = created;
  return COLL_OK;
}

void train_model_destroy(train_model_t *model) {
  if (model == NULL) return;
  train_activations_destroy(model->activations);
  free(model);
}

size_t train_model_bytes(const train_layout_t *layout, const train_model_options_t *options) {
  train_model_options_t complete = *options;
  if (complete.ops == NULL) complete.ops = &train_ops_host;
  return train_activations_bytes(&layout->config, &complete);
}
