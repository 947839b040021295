/* One call of the operators between segments for each slice of keys. */
#include "libtrain/model/slice_attention.h"

#include <string.h>

/* This slice's queries with the keys and values of a slice of the same micro-batch. */
static train_attention_segment_t segment_of(const train_model_t *model, const train_slot_t *slot,
                                            const block_activations_t *b, int slice) {
  const train_sizes_t *sizes = &model->activations->sizes;
  const train_slot_t *other = slot + (slice - slot->slice);
  const void *keys = other->blocks[b - slot->blocks].qkv;
  train_dtype_t dtype = model->exec.dtype;
  size_t features = sizes->head_features;
  int stride = 3 * (int)features;
  return (train_attention_segment_t){
      .queries = slot->batch,
      .keys = other->batch,
      .heads = (int)sizes->heads,
      .head_width = (int)(features / sizes->heads),
      .query = {b->qkv, stride, 0},
      .key = {train_dtype_const_at(dtype, keys, features), stride, 0},
      .value = {train_dtype_const_at(dtype, keys, 2 * features), stride, 0}};
}

void train_slice_attention_forward(const train_model_t *model, const train_slot_t *slot,
                                   const block_activations_t *b) {
  const train_ops_t *ops = model->options.ops;
  float *running = model->activations->slices.running;
  for (int slice = 0; slice <= slot->slice; slice++) {
    const train_attention_segment_t segment = segment_of(model, slot, b, slice);
    ops->attention_segment_forward(&model->exec, &segment, slice == 0, running);
  }
  const train_attention_segment_t own = segment_of(model, slot, b, slot->slice);
  ops->attention_segment_finish(&model->exec, &own, running, b->attended, b->log_sums);
}

/* Gradients of keys and values of all slices of a block: those of keys, then those of values. */
typedef struct sums {
  float *keys, *values;
  size_t count; /* of each */
} sums_t;

static sums_t sums_of(const train_model_t *model, const train_slot_t *slot,
                      const block_activations_t *b) {
  const train_sizes_t *sizes = &model->activations->sizes;
  size_t count = sizes->sequence_rows * sizes->head_features;
  float *keys = model->activations->slices.d_keys + (size_t)(b - slot->blocks) * 2 * count;
  return (sums_t){.keys = keys, .values = keys + count, .count = count};
}

/* Where a slice's rows begin in them. */
static size_t sums_at(const train_model_t *model, int slice) {
  const train_model_options_t *options = &model->options;
  size_t rows = (size_t)options->sequences * (size_t)train_slices_first(&options->slices, slice);
  return rows * model->activations->sizes.head_features;
}

void train_slice_attention_backward(const train_model_t *model, const train_slot_t *slot,
                                    const block_activations_t *b, const void *d_attended,
                                    void *d_qkv) {
  const train_ops_t *ops = model->options.ops;
  const train_slice_buffers_t *buffers = &model->activations->slices;
  const train_attention_segment_t own = segment_of(model, slot, b, slot->slice);
  size_t features = model->activations->sizes.head_features;
  size_t count = (size_t)train_batch_rows(&slot->batch) * features;
  const sums_t sums = sums_of(model, slot, b);
  if (slot->slice == model->options.slices.count - 1) {
    memset(sums.keys, 0, 2 * sums.count * sizeof(float));
  }
  memset(buffers->d_query, 0, count * sizeof(float));
  ops->attention_segment_d_sums(&model->exec, &own, b->attended, d_attended, buffers->d_sums);
  for (int slice = 0; slice <= slot->slice; slice++) {
    const train_attention_segment_t segment = segment_of(model, slot, b, slice);
    size_t at = sums_at(model, slice);
    ops->attention_segment_backward(&model->exec, &segment, d_attended, b->log_sums,
                                    buffers->d_sums, buffers->d_query, sums.keys + at,
                                    sums.values + at);
  }
  size_t at = sums_at(model, slot->slice);
  const float *const gradients[] = {buffers->d_query, sums.keys + at, sums.values + at};
  for (size_t i = 0; i < 3; i++) {
    ops->attention_segment_store(
        &model->exec, &slot->batch, own.heads, own.head_width, gradients[i],
        train_dtype_at(model->exec.dtype, d_qkv, i * features), 3 * (int)features);
  }
}
