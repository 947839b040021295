/*
 * The passes of the model. Forward keeps what backward needs; backward walks the blocks in reverse
 * with the gradient of the residual stream in one array, to which every block adds.
 */
#include <assert.h>
#include <string.h>

#include "libtrain/model/activations.h"
#include "libtrain/model/unit.h"

/* The stream that enters a layer; past the last one, what the final layernorm sees. */
static const float *stream_into(const train_model_t *model, int layer) {
  const train_activations_t *a = model->activations;
  return layer == 0 ? a->embedded : a->blocks[layer - 1].out;
}

static void normalize(const train_model_t *model, const train_held_unit_t *unit, int weight,
                      const float *in, int rows, float *out, float *mean, float *rstd) {
  model->options.ops->layernorm_forward(model->options.pool, in, unit_parameter(unit, weight),
                                        unit_parameter(unit, weight + 1), rows,
                                        model->layout->config.width, out, mean, rstd);
}

/* Weights are followed by their biases in the list of a unit's tensors. */
static void apply(const train_model_t *model, const train_held_unit_t *unit, int weight,
                  const float *in, const float *residual, float *out, float *active) {
  const train_tensor_t *tensor = &unit->tensors[weight];
  const train_linear_t linear = {.in_width = tensor->columns, .out_width = tensor->rows};
  model->options.ops->linear_forward(
      model->options.pool, &linear, in, train_batch_rows(&model->activations->batch),
      unit_parameter(unit, weight), unit_parameter(unit, weight + 1), residual, out, active);
}

/* ---- forward ---- */

static void attend(const train_model_t *model, const train_held_unit_t *unit,
                   const block_activations_t *b, const float *in) {
  const train_activations_t *a = model->activations;
  const train_model_config_t *config = &model->layout->config;
  float *new_qkv = b->qkv + (size_t)a->batch.first * 3 * (size_t)config->width;
  normalize(model, unit, TRAIN_NORM1_WEIGHT, in, train_batch_rows(&a->batch), b->normed1, b->mean1,
            b->rstd1);
  apply(model, unit, TRAIN_QKV_WEIGHT, b->normed1, NULL, new_qkv, NULL);
  model->options.ops->attention_forward(model->options.pool, &a->batch, b->qkv, config->heads,
                                        config->width, a->scratch, b->attended, b->log_sums);
}

static void widen(const train_model_t *model, const train_held_unit_t *unit,
                  const block_activations_t *b, const float *in) {
  apply(model, unit, TRAIN_ATTENTION_WEIGHT, b->attended, in, b->middle, NULL);
  normalize(model, unit, TRAIN_NORM2_WEIGHT, b->middle,
            train_batch_rows(&model->activations->batch), b->normed2, b->mean2, b->rstd2);
  apply(model, unit, TRAIN_HIDDEN_WEIGHT, b->normed2, NULL, b->hidden, b->active);
}

static void narrow(const train_model_t *model, const train_held_unit_t *unit,
                   const block_activations_t *b) {
  apply(model, unit, TRAIN_MLP_WEIGHT, b->active, b->middle, b->out, NULL);
}

static coll_status_t embed(const train_model_t *model, const train_source_t *source) {
  const train_activations_t *a = model->activations;
  train_held_unit_t ends;
  COLL_TRY(unit_acquire(model->layout, source, 0, 1, &ends));
  model->options.ops->embedding_forward(
      model->options.pool, &a->batch, a->tokens, unit_parameter(&ends, TRAIN_TOKEN_TABLE),
      unit_parameter(&ends, TRAIN_POSITION_TABLE), model->layout->config.width, a->embedded);
  source->release(source->context, 0);
  return COLL_OK;
}

/* Everything up to the stream that the final layernorm sees. */
static coll_status_t forward(train_model_t *model, const train_source_t *source,
                             const int32_t *tokens, const train_batch_t *batch) {
  assert(batch->sequences >= 1 && batch->sequences <= model->options.sequences);
  assert(batch->length >= 1 && batch->first >= 0);
  assert(batch->first + batch->length <= model->layout->config.context);
  train_activations_t *a = model->activations;
  int layers = model->layout->config.layers;
  a->batch = *batch;
  memcpy(a->tokens, tokens, (size_t)train_batch_rows(batch) * sizeof *tokens);
  COLL_TRY(embed(model, source));
  for (int layer = 0; layer < layers; layer++) {
    int unit = 1 + layer;
    train_held_unit_t held;
    COLL_TRY(unit_acquire(model->layout, source, unit, layer + 1 < layers ? unit + 1 : 0, &held));
    attend(model, &held, &a->blocks[layer], stream_into(model, layer));
    widen(model, &held, &a->blocks[layer], stream_into(model, layer));
    narrow(model, &held, &a->blocks[layer]);
    source->release(source->context, unit);
  }
  return COLL_OK;
}

/* The final layernorm, the classifier and the summed loss; with gradients unless d_in is NULL. */
static double classify(const train_model_t *model, const train_held_unit_t *ends,
                       const int32_t *targets, float scale, float *d_in) {
  const train_activations_t *a = model->activations;
  const train_model_config_t *config = &model->layout->config;
  int rows = train_batch_rows(&a->batch);
  normalize(model, ends, TRAIN_FINAL_WEIGHT, stream_into(model, config->layers), rows, a->normed,
            a->mean, a->rstd);
  return model->options.ops->classifier(
      model->options.pool, a->normed, unit_parameter(ends, TRAIN_TOKEN_TABLE), targets, rows,
      config->width, config->vocabulary, scale, ends->overwrite, a->scratch, d_in,
      d_in != NULL ? unit_gradient(ends, TRAIN_TOKEN_TABLE) : NULL);
}

/* ---- backward ---- */

/* To d_stream; `first` makes what was there irrelevant. */
static void normalize_backward(const train_model_t *model, const train_held_unit_t *unit,
                               int weight, const float *in, const float *mean, const float *rstd,
                               bool first) {
  const train_activations_t *a = model->activations;
  model->options.ops->layernorm_backward(
      model->options.pool, a->d_narrow, in, unit_parameter(unit, weight), mean, rstd,
      train_batch_rows(&a->batch), model->layout->config.width, first, unit->overwrite, a->scratch,
      a->d_stream, unit_gradient(unit, weight), unit_gradient(unit, weight + 1));
}

static void apply_backward(const train_model_t *model, const train_held_unit_t *unit, int weight,
                           const float *d_out, const float *in, const float *hidden, float *d_in) {
  const train_tensor_t *tensor = &unit->tensors[weight];
  const train_linear_t linear = {.in_width = tensor->columns, .out_width = tensor->rows};
  model->options.ops->linear_backward(model->options.pool, &linear, d_out, in,
                                      train_batch_rows(&model->activations->batch),
                                      unit_parameter(unit, weight), hidden, unit->overwrite, d_in,
                                      unit_gradient(unit, weight), unit_gradient(unit, weight + 1));
}

static void block_gradients(const train_model_t *model, const train_held_unit_t *unit,
                            const block_activations_t *b, const float *in) {
  const train_activations_t *a = model->activations;
  const train_model_config_t *config = &model->layout->config;
  apply_backward(model, unit, TRAIN_MLP_WEIGHT, a->d_stream, b->active, b->hidden, a->d_wide);
  apply_backward(model, unit, TRAIN_HIDDEN_WEIGHT, a->d_wide, b->normed2, NULL, a->d_narrow);
  normalize_backward(model, unit, TRAIN_NORM2_WEIGHT, b->middle, b->mean2, b->rstd2, false);
  apply_backward(model, unit, TRAIN_ATTENTION_WEIGHT, a->d_stream, b->attended, NULL, a->d_narrow);
  model->options.ops->attention_backward(model->options.pool, &a->batch, a->d_narrow, b->qkv,
                                         b->attended, b->log_sums, config->heads, config->width,
                                         a->scratch, a->d_wide);
  apply_backward(model, unit, TRAIN_QKV_WEIGHT, a->d_wide, b->normed1, NULL, a->d_narrow);
  normalize_backward(model, unit, TRAIN_NORM1_WEIGHT, in, b->mean1, b->rstd1, false);
}

static void recompute(const train_model_t *model, const train_held_unit_t *unit,
                      const block_activations_t *b, const float *in) {
  train_recompute_t what = model->options.recompute;
  if (what != TRAIN_RECOMPUTE_NONE) attend(model, unit, b, in);
  if (what == TRAIN_RECOMPUTE_BLOCK) widen(model, unit, b, in);
}

static coll_status_t block_backward(const train_model_t *model, const train_source_t *source,
                                    int layer) {
  const block_activations_t *b = &model->activations->blocks[layer];
  const float *in = stream_into(model, layer);
  int unit = 1 + layer;
  train_held_unit_t held;
  COLL_TRY(unit_acquire(model->layout, source, unit, layer > 0 ? unit - 1 : -1, &held));
  recompute(model, &held, b, in);
  coll_status_t status =
      source->open_gradients(source->context, unit, &held.gradients, &held.overwrite);
  if (status == COLL_OK) block_gradients(model, &held, b, in);
  source->release(source->context, unit);
  COLL_TRY(status);
  return source->close_gradients(source->context, unit);
}

/* From the stream that the final layernorm sees to its gradient; unit 0's gradients stay open. */
static coll_status_t classify_backward(const train_model_t *model, const train_source_t *source,
                                       const int32_t *targets, float scale, double *loss,
                                       train_held_unit_t *ends) {
  const train_activations_t *a = model->activations;
  int layers = model->layout->config.layers;
  COLL_TRY(unit_acquire(model->layout, source, 0, layers, ends));
  coll_status_t status =
      source->open_gradients(source->context, 0, &ends->gradients, &ends->overwrite);
  if (status == COLL_OK) {
    *loss = classify(model, ends, targets, scale, a->d_narrow);
    normalize_backward(model, ends, TRAIN_FINAL_WEIGHT, stream_into(model, layers), a->mean,
                       a->rstd, true);
  }
  source->release(source->context, 0);
  return status;
}

/* ---- the passes ---- */

coll_status_t train_model_forward_backward(train_model_t *model, const train_source_t *source,
                                           const int32_t *tokens, const int32_t *targets,
                                           int sequences, int length, float scale, double *loss) {
  assert(!model->options.forward_only);
  const train_activations_t *a = model->activations;
  const train_model_config_t *config = &model->layout->config;
  const train_batch_t batch = {.sequences = sequences, .length = length};
  train_held_unit_t ends;
  double sum;
  COLL_TRY(forward(model, source, tokens, &batch));
  COLL_TRY(classify_backward(model, source, targets, scale, &sum, &ends));
  for (int layer = config->layers - 1; layer >= 0; layer--) {
    COLL_TRY(block_backward(model, source, layer));
  }
  model->options.ops->embedding_backward(model->options.pool, &a->batch, a->tokens, a->d_stream,
                                         config->width, config->context, ends.overwrite,
                                         unit_gradient(&ends, TRAIN_TOKEN_TABLE),
                                         unit_gradient(&ends, TRAIN_POSITION_TABLE));
  COLL_TRY(source->close_gradients(source->context, 0));
  *loss = sum;
  return COLL_OK;
}

coll_status_t train_model_loss(train_model_t *model, const train_source_t *source,
                               const int32_t *tokens, const int32_t *targets, int sequences,
                               int length, double *loss) {
  const train_batch_t batch = {.sequences = sequences, .length = length};
  train_held_unit_t ends;
  COLL_TRY(forward(model, source, tokens, &batch));
  COLL_TRY(unit_acquire(model->layout, source, 0, -1, &ends));
  *loss = classify(model, &ends, targets, 0, NULL);
  source->release(source->context, 0);
  return COLL_OK;
}

coll_status_t train_model_extend(train_model_t *model, const train_source_t *source,
                                 const int32_t *tokens, int first, int count, float *logits) {
  assert(model->options.forward_only || model->options.recompute == TRAIN_RECOMPUTE_NONE);
  const train_activations_t *a = model->activations;
  const train_model_config_t *config = &model->layout->config;
  const train_batch_t batch = {.sequences = 1, .length = count, .first = first};
  const train_linear_t classifier = {.in_width = config->width, .out_width = config->vocabulary};
  train_held_unit_t ends;
  COLL_TRY(forward(model, source, tokens, &batch));
  COLL_TRY(unit_acquire(model->layout, source, 0, -1, &ends));
  const float *last = stream_into(model, config->layers) + (size_t)(count - 1) * config->width;
  normalize(model, &ends, TRAIN_FINAL_WEIGHT, last, 1, a->normed, a->mean, a->rstd);
  model->options.ops->linear_forward(model->options.pool, &classifier, a->normed, 1,
                                     unit_parameter(&ends, TRAIN_TOKEN_TABLE), NULL, NULL, logits,
                                     NULL);
  source->release(source->context, 0);
  return COLL_OK;
}
