/* The vectors of a unit are copied side by side, so that a unit needs one collective. */
#include "libtrain/parallel/gradient_sync.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

typedef struct train_sync_unit {
  float *gradients;  /* as opened */
  int micro_batches; /* closed in this cycle */
} train_sync_unit_t;

static const int norms_of_root[] = {TRAIN_FINAL_WEIGHT, TRAIN_FINAL_BIAS};
static const int norms_of_block[] = {TRAIN_NORM1_WEIGHT, TRAIN_NORM1_BIAS, TRAIN_NORM2_WEIGHT,
                                     TRAIN_NORM2_BIAS};

/* ---- sequence parallelism ---- */

/* Copies the vectors of a unit's layernorms to sync->vectors, or back; returns their elements. */
static size_t copy_norms(const train_gradient_sync_t *sync, int unit, bool back) {
  const int *norms = unit == 0 ? norms_of_root : norms_of_block;
  int count = unit == 0 ? 2 : 4;
  size_t at = 0;
  for (int i = 0; i < count; i++) {
    const train_tensor_t *tensor = train_layout_tensor(sync->layout, unit, norms[i]);
    float *gradients =
        sync->units[unit].gradients + (tensor->offset - sync->layout->units[unit].offset);
    float *vector = sync->vectors + at;
    size_t elements = train_tensor_count(tensor);
    memcpy(back ? gradients : vector, back ? vector : gradients, elements * sizeof *vector);
    at += elements;
  }
  return at;
}

static coll_status_t sum_norms(const train_gradient_sync_t *sync, int unit) {
  size_t count = copy_norms(sync, unit, false);
  train_axis_allreduce(sync->tensor, TRAIN_FLOAT32, sync->vectors, count);
  copy_norms(sync, unit, true);
  return train_axis_status(sync->tensor);
}

/* ---- the provider ---- */

static coll_status_t acquire(void *context, int unit, int next, const void **parameters) {
  const train_gradient_sync_t *sync = context;
  return sync->inner.acquire(sync->inner.context, unit, next, parameters);
}

static void release(void *context, int unit) {
  const train_gradient_sync_t *sync = context;
  sync->inner.release(sync->inner.context, unit);
}

static coll_status_t open_gradients(void *context, int unit, float **gradients, bool *overwrite) {
  train_gradient_sync_t *sync = context;
  COLL_TRY(sync->inner.open_gradients(sync->inner.context, unit, gradients, overwrite));
  sync->units[unit].gradients = *gradients;
  return COLL_OK;
}

/* The last closing of a root unit with a copy is left to train_gradient_sync_finish: this rank may
 * have to send before the other one can end its passes. */
static coll_status_t close_gradients(void *context, int unit) {
  train_gradient_sync_t *sync = context;
  bool last = ++sync->units[unit].micro_batches == sync->micro_batches;
  bool has_norms = unit < sync->layout->block_units;
  if (sync->tensor != NULL && has_norms && (last || sync->every)) COLL_TRY(sum_norms(sync, unit));
  if (sync->embedding != NULL && unit == 0 && last) return COLL_OK;
  return sync->inner.close_gradients(sync->inner.context, unit);
}

train_param_provider_t train_gradient_sync_provider(train_gradient_sync_t *sync) {
  if (sync->tensor == NULL && sync->embedding == NULL) return sync->inner;
  return (train_param_provider_t){.context = sync,
                                  .acquire = acquire,
                                  .release = release,
                                  .open_gradients = open_gradients,
                                  .close_gradients = close_gradients};
}

/* ---- a cycle ---- */

coll_status_t train_gradient_sync_init(const train_layout_t *layout, train_param_provider_t inner,
                                       train_axis_t *tensor, train_axis_t *embedding, int stage,
                                       train_gradient_sync_t *sync) {
  size_t width = (size_t)layout->config.width;
  void *units, *vectors;
  *sync = (train_gradient_sync_t){.inner = inner,
                                  .layout = layout,
                                  .tensor = tensor,
                                  .embedding = embedding,
                                  .every = stage >= 2};
  COLL_TRY(base_alloc((size_t)layout->unit_count, sizeof(train_sync_unit_t), "the units", &units));
  sync->units = units;
  COLL_TRY(base_alloc(4 * width, sizeof(float), "gradients of layernorms", &vectors));
  sync->vectors = vectors;
  return COLL_OK;
}

void train_gradient_sync_free(train_gradient_sync_t *sync) {
  free(sync->vectors);
  free(sync->units);
}

void train_gradient_sync_begin(train_gradient_sync_t *sync, int micro_batches) {
  sync->micro_batches = micro_batches;
  for (int unit = 0; unit < sync->layout->unit_count; unit++) sync->units[unit].micro_batches = 0;
}

coll_status_t train_gradient_sync_finish(train_gradient_sync_t *sync) {
  if (sync->embedding == NULL) return COLL_OK;
  const train_tensor_t *table = train_layout_tensor(sync->layout, 0, TRAIN_TOKEN_TABLE);
  train_axis_reduce(sync->embedding, TRAIN_FLOAT32, sync->units[0].gradients + table->offset,
                    train_tensor_count(table), 0);
  COLL_TRY(train_axis_status(sync->embedding));
  return sync->inner.close_gradients(sync->inner.context, 0);
}
