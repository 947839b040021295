/*
 * The passes of the model. Forward stores the activations that backward needs. Backward visits the
 * blocks in reverse order; all of them add to one array with the gradient of the residual stream.
 */
#include <assert.h>
#include <string.h>

#include "libtrain/model/activations.h"
#include "libtrain/model/model.h"
#include "libtrain/model/unit.h"

/* The residual stream that enters a layer; for layer == layers the input of the final layernorm. */
static const void *layer_input(const train_model_t *model, int layer) {
  const train_activations_t *a = model->activations;
  return layer == 0 ? a->embedded : a->blocks[layer - 1].out;
}

static void normalize(const train_model_t *model, const train_unit_view_t *unit, int weight,
                      const void *in, int rows, void *out, float *mean, float *rstd) {
  model->options.ops->layernorm_forward(&model->exec, in, unit_parameter(unit, weight),
                                        unit_parameter(unit, weight + 1), rows,
                                        model->layout->config.width, out, mean, rstd);
}

/* The bias of a weight is the next tensor of the unit. */
static void linear_forward(const train_model_t *model, const train_unit_view_t *unit, int weight,
                           const void *in, const void *residual, void *out, void *active) {
  const train_tensor_t *tensor = &unit->tensors[weight];
  const train_linear_t linear = {.in_width = tensor->columns, .out_width = tensor->rows};
  model->options.ops->linear_forward(
      &model->exec, &linear, in, train_batch_rows(&model->activations->batch),
      unit_parameter(unit, weight), unit_parameter(unit, weight + 1), residual, out, active);
}

/* ---- forward ---- */

static void attention_forward(const train_model_t *model, const train_unit_view_t *unit,
                              const block_activations_t *b, const void *in) {
  const train_activations_t *a = model->activations;
  const train_model_config_t *config = &model->layout->config;
  void *new_qkv =
      train_dtype_at(model->exec.dtype, b->qkv, (size_t)a->batch.first * 3 * (size_t)config->width);
  normalize(model, unit, TRAIN_NORM1_WEIGHT, in, train_batch_rows(&a->batch), b->normed1, b->mean1,
            b->rstd1);
  linear_forward(model, unit, TRAIN_QKV_WEIGHT, b->normed1, NULL, new_qkv, NULL);
  model->options.ops->attention_forward(&model->exec, &a->batch, b->qkv, config->heads,
                                        config->width, b->attended, b->log_sums);
}

static void mlp_hidden_forward(const train_model_t *model, const train_unit_view_t *unit,
                               const block_activations_t *b, const void *in) {
  linear_forward(model, unit, TRAIN_ATTENTION_WEIGHT, b->attended, in, b->mid_stream, NULL);
  normalize(model, unit, TRAIN_NORM2_WEIGHT, b->mid_stream,
            train_batch_rows(&model->activations->batch), b->normed2, b->mean2, b->rstd2);
  linear_forward(model, unit, TRAIN_HIDDEN_WEIGHT, b->normed2, NULL, b->hidden, b->active);
}

static void mlp_output_forward(const train_model_t *model, const train_unit_view_t *unit,
                               const block_activations_t *b) {
  linear_forward(model, unit, TRAIN_MLP_WEIGHT, b->active, b->mid_stream, b->out, NULL);
}

static coll_status_t embed(const train_model_t *model, const train_param_provider_t *provider) {
  const train_activations_t *a = model->activations;
  train_unit_view_t root;
  COLL_TRY(unit_acquire(model->layout, model->exec.dtype, provider, 0, 1, &root));
  model->options.ops->embedding_forward(
      &model->exec, &a->batch, a->tokens, unit_parameter(&root, TRAIN_TOKEN_TABLE),
      unit_parameter(&root, TRAIN_POSITION_TABLE), model->layout->config.width, a->embedded);
  provider->release(provider->context, 0);
  return COLL_OK;
}

/* Everything up to the input of the final layernorm. */
static coll_status_t forward(train_model_t *model, const train_param_provider_t *provider,
                             const int32_t *tokens, const train_batch_t *batch) {
  assert(batch->sequences >= 1 && batch->sequences <= model->options.sequences);
  assert(batch->length >= 1 && batch->first >= 0);
  assert(batch->first + batch->length <= model->layout->config.context);
  train_activations_t *a = model->activations;
  int layers = model->layout->config.layers;
  a->batch = *batch;
  memcpy(a->tokens, tokens, (size_t)train_batch_rows(batch) * sizeof *tokens);
  COLL_TRY(embed(model, provider));
  for (int layer = 0; layer < layers; layer++) {
    int unit = 1 + layer;
    train_unit_view_t view;
    COLL_TRY(unit_acquire(model->layout, model->exec.dtype, provider, unit,
                          layer + 1 < layers ? unit + 1 : 0, &view));
    attention_forward(model, &view, &a->blocks[layer], layer_input(model, layer));
    mlp_hidden_forward(model, &view, &a->blocks[layer], layer_input(model, layer));
    mlp_output_forward(model, &view, &a->blocks[layer]);
    provider->release(provider->context, unit);
  }
  return COLL_OK;
}

/* The final layernorm, the classifier and the summed loss; with gradients unless d_in is NULL. */
static double classify(const train_model_t *model, const train_unit_view_t *root,
                       const int32_t *targets, float scale, void *d_in) {
  const train_activations_t *a = model->activations;
  const train_model_config_t *config = &model->layout->config;
  int rows = train_batch_rows(&a->batch);
  normalize(model, root, TRAIN_FINAL_WEIGHT, layer_input(model, config->layers), rows, a->normed,
            a->mean, a->rstd);
  return model->options.ops->classifier(
      &model->exec, a->normed, unit_parameter(root, TRAIN_TOKEN_TABLE), targets, rows,
      config->width, config->vocabulary, scale, root->overwrite, d_in,
      d_in != NULL ? unit_gradient(root, TRAIN_TOKEN_TABLE) : NULL);
}

/* ---- backward ---- */

/* Adds to d_stream, or overwrites it if `first`. */
static void normalize_backward(const train_model_t *model, const train_unit_view_t *unit,
                               int weight, const void *in, const float *mean, const float *rstd,
                               bool first) {
  const train_activations_t *a = model->activations;
  model->options.ops->layernorm_backward(
      &model->exec, a->d_narrow, in, unit_parameter(unit, weight), mean, rstd,
      train_batch_rows(&a->batch), model->layout->config.width, first, unit->overwrite, a->d_stream,
      unit_gradient(unit, weight), unit_gradient(unit, weight + 1));
}

static void linear_backward(const train_model_t *model, const train_unit_view_t *unit, int weight,
                            const void *d_out, const void *in, const void *hidden, void *d_in) {
  const train_tensor_t *tensor = &unit->tensors[weight];
  const train_linear_t linear = {.in_width = tensor->columns, .out_width = tensor->rows};
  model->options.ops->linear_backward(&model->exec, &linear, d_out, in,
                                      train_batch_rows(&model->activations->batch),
                                      unit_parameter(unit, weight), hidden, unit->overwrite, d_in,
                                      unit_gradient(unit, weight), unit_gradient(unit, weight + 1));
}

static void block_gradients(const train_model_t *model, const train_unit_view_t *unit,
                            const block_activations_t *b, const void *in) {
  const train_activations_t *a = model->activations;
  const train_model_config_t *config = &model->layout->config;
  linear_backward(model, unit, TRAIN_MLP_WEIGHT, a->d_stream, b->active, b->hidden, a->d_wide);
  linear_backward(model, unit, TRAIN_HIDDEN_WEIGHT, a->d_wide, b->normed2, NULL, a->d_narrow);
  normalize_backward(model, unit, TRAIN_NORM2_WEIGHT, b->mid_stream, b->mean2, b->rstd2, false);
  linear_backward(model, unit, TRAIN_ATTENTION_WEIGHT, a->d_stream, b->attended, NULL, a->d_narrow);
  model->options.ops->attention_backward(&model->exec, &a->batch, a->d_narrow, b->qkv, b->attended,
                                         b->log_sums, config->heads, config->width, a->d_wide);
  linear_backward(model, unit, TRAIN_QKV_WEIGHT, a->d_wide, b->normed1, NULL, a->d_narrow);
  normalize_backward(model, unit, TRAIN_NORM1_WEIGHT, in, b->mean1, b->rstd1, false);
}

static void recompute(const train_model_t *model, const train_unit_view_t *unit,
                      const block_activations_t *b, const void *in) {
  train_recompute_t what = model->options.recompute;
  if (what != TRAIN_RECOMPUTE_NONE) attention_forward(model, unit, b, in);
  if (what == TRAIN_RECOMPUTE_BLOCK) mlp_hidden_forward(model, unit, b, in);
}

static coll_status_t block_backward(const train_model_t *model,
                                    const train_param_provider_t *provider, int layer) {
  const block_activations_t *b = &model->activations->blocks[layer];
  const void *in = layer_input(model, layer);
  int unit = 1 + layer;
  train_unit_view_t view;
  COLL_TRY(unit_acquire(model->layout, model->exec.dtype, provider, unit, layer > 0 ? unit - 1 : -1,
                        &view));
  recompute(model, &view, b, in);
  coll_status_t status =
      provider->open_gradients(provider->context, unit, &view.gradients, &view.overwrite);
  if (status == COLL_OK) block_gradients(model, &view, b, in);
  provider->release(provider->context, unit);
  COLL_TRY(status);
  return provider->close_gradients(provider->context, unit);
}

/* Computes the gradient of the final layernorm's input; unit 0's gradients stay open. */
static coll_status_t classify_backward(const train_model_t *model,
                                       const train_param_provider_t *provider,
                                       const int32_t *targets, float scale, double *loss,
                                       train_unit_view_t *root) {
  const train_activations_t *a = model->activations;
  int layers = model->layout->config.layers;
  COLL_TRY(unit_acquire(model->layout, model->exec.dtype, provider, 0, layers, root));
  coll_status_t status =
      provider->open_gradients(provider->context, 0, &root->gradients, &root->overwrite);
  if (status == COLL_OK) {
    *loss = classify(model, root, targets, scale, a->d_narrow);
    normalize_backward(model, root, TRAIN_FINAL_WEIGHT, layer_input(model, layers), a->mean,
                       a->rstd, true);
  }
  provider->release(provider->context, 0);
  return status;
}

/* ---- public functions ---- */

coll_status_t train_model_forward_backward(train_model_t *model,
                                           const train_param_provider_t *provider,
                                           const int32_t *tokens, const int32_t *targets,
                                           int sequences, int length, float scale, double *loss) {
  assert(!model->options.forward_only);
  const train_activations_t *a = model->activations;
  const train_model_config_t *config = &model->layout->config;
  const train_batch_t batch = {.sequences = sequences, .length = length};
  train_unit_view_t root;
  double sum;
  COLL_TRY(forward(model, provider, tokens, &batch));
  COLL_TRY(classify_backward(model, provider, targets, scale, &sum, &root));
  for (int layer = config->layers - 1; layer >= 0; layer--) {
    COLL_TRY(block_backward(model, provider, layer));
  }
  model->options.ops->embedding_backward(&model->exec, &a->batch, a->tokens, a->d_stream,
                                         config->width, config->context, root.overwrite,
                                         unit_gradient(&root, TRAIN_TOKEN_TABLE),
                                         unit_gradient(&root, TRAIN_POSITION_TABLE));
  COLL_TRY(provider->close_gradients(provider->context, 0));
  *loss = sum;
  return COLL_OK;
}

coll_status_t train_model_loss(train_model_t *model, const train_param_provider_t *provider,
                               const int32_t *tokens, const int32_t *targets, int sequences,
                               int length, double *loss) {
  const train_batch_t batch = {.sequences = sequences, .length = length};
  train_unit_view_t root;
  COLL_TRY(forward(model, provider, tokens, &batch));
  COLL_TRY(unit_acquire(model->layout, model->exec.dtype, provider, 0, -1, &root));
  *loss = classify(model, &root, targets, 0, NULL);
  provider->release(provider->context, 0);
  return COLL_OK;
}

coll_status_t train_model_extend(train_model_t *model, const train_param_provider_t *provider,
                                 const int32_t *tokens, int first, int count, float *logits) {
  assert(model->options.forward_only || model->options.recompute == TRAIN_RECOMPUTE_NONE);
  const train_activations_t *a = model->activations;
  const train_model_config_t *config = &model->layout->config;
  const train_batch_t batch = {.sequences = 1, .length = count, .first = first};
  const train_linear_t classifier = {.in_width = config->width, .out_width = config->vocabulary};
  train_unit_view_t root;
  COLL_TRY(forward(model, provider, tokens, &batch));
  COLL_TRY(unit_acquire(model->layout, model->exec.dtype, provider, 0, -1, &root));
  const void *last = train_dtype_const_at(model->exec.dtype, layer_input(model, config->layers),
                                          (size_t)(count - 1) * (size_t)config->width);
  normalize(model, &root, TRAIN_FINAL_WEIGHT, last, 1, a->normed, a->mean, a->rstd);
  model->options.ops->linear_forward(&model->exec, &classifier, a->normed, 1,
                                     unit_parameter(&root, TRAIN_TOKEN_TABLE), NULL, NULL, logits,
                                     NULL);
  train_dtype_widen(model->exec.dtype, logits, (size_t)config->vocabulary, logits);
  provider->release(provider->context, 0);
  return COLL_OK;
}
