/*
 * The passes of the model. Forward keeps what backward needs; backward walks the blocks in reverse
 * with the gradient of the residual stream in one array, to which every block adds.
 */
#include <assert.h>
#include <string.h>

#include "libtrain/model/internal.h"
#include "libtrain/ops/ops.h"

/* A unit while it is held: its parameters, its gradients (NULL when nothing is trained), and its
 * tensors, whose offsets count from the unit's. */
typedef struct unit {
  const train_tensor_t *tensors;
  size_t offset;
  const float *parameters;
  float *gradients;
} unit_t;

static const float *parameter(const unit_t *unit, int which) {
  return unit->parameters + (unit->tensors[which].offset - unit->offset);
}

static float *gradient(const unit_t *unit, int which) {
  return unit->gradients + (unit->tensors[which].offset - unit->offset);
}

static coll_status_t acquire(const train_model_t *model, const train_source_t *source, int index,
                             int next, unit_t *unit) {
  unit_t acquired = {.tensors = train_layout_tensor(model->layout, index, 0),
                     .offset = model->layout->units[index].offset};
  COLL_TRY(source->acquire(source->context, index, next, &acquired.parameters));
  *unit = acquired;
  return COLL_OK;
}

static coll_status_t open_gradients(const train_model_t *model, const train_source_t *source,
                                    int index, unit_t *unit) {
  bool fresh;
  COLL_TRY(source->open_gradients(source->context, index, &unit->gradients, &fresh));
  if (fresh) memset(unit->gradients, 0, model->layout->units[index].count * sizeof(float));
  return COLL_OK;
}

static void attention_half(train_model_t *model, const unit_t *unit, block_activations_t *b,
                           const float *in) {
  train_activations_t *a = model->activations;
  int width = model->layout->config.width;
  train_layernorm_forward(in, parameter(unit, TRAIN_NORM1_WEIGHT),
                          parameter(unit, TRAIN_NORM1_BIAS), a->rows, width, b->normed1, b->mean1,
                          b->rstd1);
  train_linear_forward(b->normed1, parameter(unit, TRAIN_QKV_WEIGHT),
                       parameter(unit, TRAIN_QKV_BIAS), a->rows, width, 3 * width, b->qkv);
  train_attention_forward(b->qkv, a->sequences, a->length, model->layout->config.heads, width,
                          b->weights, b->attended);
  train_linear_forward(b->attended, parameter(unit, TRAIN_ATTENTION_WEIGHT),
                       parameter(unit, TRAIN_ATTENTION_BIAS), a->rows, width, width, a->projected);
  train_residual_forward(in, a->projected, (long)a->rows * width, b->middle);
}

static void mlp_half(train_model_t *model, const unit_t *unit, block_activations_t *b) {
  train_activations_t *a = model->activations;
  int width = model->layout->config.width;
  train_layernorm_forward(b->middle, parameter(unit, TRAIN_NORM2_WEIGHT),
                          parameter(unit, TRAIN_NORM2_BIAS), a->rows, width, b->normed2, b->mean2,
                          b->rstd2);
  train_linear_forward(b->normed2, parameter(unit, TRAIN_HIDDEN_WEIGHT),
                       parameter(unit, TRAIN_HIDDEN_BIAS), a->rows, width, 4 * width, b->hidden);
  train_gelu_forward(b->hidden, (long)a->rows * 4 * width, b->active);
  train_linear_forward(b->active, parameter(unit, TRAIN_MLP_WEIGHT),
                       parameter(unit, TRAIN_MLP_BIAS), a->rows, 4 * width, width, a->projected);
  train_residual_forward(b->middle, a->projected, (long)a->rows * width, b->out);
}

/* The stream that enters a layer; past the last one, what the final layernorm sees. */
static const float *stream_into(const train_model_t *model, int layer) {
  const train_activations_t *a = model->activations;
  return layer == 0 ? a->embedded : a->blocks[layer - 1].out;
}

static coll_status_t embed(train_model_t *model, const train_source_t *source) {
  train_activations_t *a = model->activations;
  unit_t unit;
  COLL_TRY(acquire(model, source, 0, 1, &unit));
  train_embedding_forward(a->tokens, parameter(&unit, TRAIN_TOKEN_TABLE),
                          parameter(&unit, TRAIN_POSITION_TABLE), a->sequences, a->length,
                          model->layout->config.width, a->embedded);
  source->release(source->context, 0);
  return COLL_OK;
}

/* Everything up to the stream that the final layernorm sees. */
static coll_status_t forward(train_model_t *model, const train_source_t *source,
                             const int32_t *tokens, int sequences, int length) {
  assert(sequences >= 1 && sequences <= model->options.sequences);
  assert(length >= 1 && length <= model->layout->config.context);
  train_activations_t *a = model->activations;
  int layers = model->layout->config.layers;
  a->sequences = sequences;
  a->length = length;
  a->rows = sequences * length;
  memmove(a->tokens, tokens, (size_t)a->rows * sizeof *tokens);
  COLL_TRY(embed(model, source));
  for (int layer = 0; layer < layers; layer++) {
    unit_t unit;
    COLL_TRY(acquire(model, source, 1 + layer, layer + 1 < layers ? layer + 2 : 0, &unit));
    attention_half(model, &unit, &a->blocks[layer], stream_into(model, layer));
    mlp_half(model, &unit, &a->blocks[layer]);
    source->release(source->context, 1 + layer);
  }
  return COLL_OK;
}

/* The final layernorm and the classifier: leaves the logits. */
static void classify(train_model_t *model, const unit_t *ends) {
  train_activations_t *a = model->activations;
  const train_model_config_t *config = &model->layout->config;
  train_layernorm_forward(stream_into(model, config->layers), parameter(ends, TRAIN_FINAL_WEIGHT),
                          parameter(ends, TRAIN_FINAL_BIAS), a->rows, config->width, a->normed,
                          a->mean, a->rstd);
  train_linear_forward(a->normed, parameter(ends, TRAIN_TOKEN_TABLE), NULL, a->rows, config->width,
                       config->vocabulary, a->logits);
}

/* The summed loss; turns the logits into probabilities. */
static double measure(train_model_t *model, const int32_t *targets) {
  train_activations_t *a = model->activations;
  train_cross_entropy_forward(targets, a->rows, model->layout->config.vocabulary, a->logits,
                              a->losses);
  double sum = 0;
  for (int row = 0; row < a->rows; row++) sum += (double)a->losses[row];
  return sum;
}

static void classify_backward(train_model_t *model, const unit_t *ends, const int32_t *targets,
                              float scale) {
  train_activations_t *a = model->activations;
  int width = model->layout->config.width, classes = model->layout->config.vocabulary;
  train_cross_entropy_backward(targets, a->rows, classes, scale, a->logits);
  train_linear_backward(a->logits, a->normed, parameter(ends, TRAIN_TOKEN_TABLE), a->rows, width,
                        classes, a->d_narrow, gradient(ends, TRAIN_TOKEN_TABLE), NULL);
  memset(a->d_stream, 0, (size_t)a->rows * (size_t)width * sizeof *a->d_stream);
  train_layernorm_backward(a->d_narrow, stream_into(model, model->layout->config.layers),
                           parameter(ends, TRAIN_FINAL_WEIGHT), a->mean, a->rstd, a->rows, width,
                           a->d_stream, gradient(ends, TRAIN_FINAL_WEIGHT),
                           gradient(ends, TRAIN_FINAL_BIAS));
}

static void mlp_half_backward(train_model_t *model, const unit_t *unit, block_activations_t *b) {
  train_activations_t *a = model->activations;
  int width = model->layout->config.width;
  train_linear_backward(a->d_stream, b->active, parameter(unit, TRAIN_MLP_WEIGHT), a->rows,
                        4 * width, width, a->d_wide, gradient(unit, TRAIN_MLP_WEIGHT),
                        gradient(unit, TRAIN_MLP_BIAS));
  train_gelu_backward(b->hidden, (long)a->rows * 4 * width, a->d_wide);
  train_linear_backward(a->d_wide, b->normed2, parameter(unit, TRAIN_HIDDEN_WEIGHT), a->rows, width,
                        4 * width, a->d_narrow, gradient(unit, TRAIN_HIDDEN_WEIGHT),
                        gradient(unit, TRAIN_HIDDEN_BIAS));
  train_layernorm_backward(a->d_narrow, b->middle, parameter(unit, TRAIN_NORM2_WEIGHT), b->mean2,
                           b->rstd2, a->rows, width, a->d_stream,
                           gradient(unit, TRAIN_NORM2_WEIGHT), gradient(unit, TRAIN_NORM2_BIAS));
}

static void attention_half_backward(train_model_t *model, const unit_t *unit,
                                    block_activations_t *b, const float *in) {
  train_activations_t *a = model->activations;
  int width = model->layout->config.width;
  train_linear_backward(a->d_stream, b->attended, parameter(unit, TRAIN_ATTENTION_WEIGHT), a->rows,
                        width, width, a->d_narrow, gradient(unit, TRAIN_ATTENTION_WEIGHT),
                        gradient(unit, TRAIN_ATTENTION_BIAS));
  train_attention_backward(a->d_narrow, b->qkv, b->weights, a->sequences, a->length,
                           model->layout->config.heads, width, a->scratch, a->d_wide);
  train_linear_backward(a->d_wide, b->normed1, parameter(unit, TRAIN_QKV_WEIGHT), a->rows, width,
                        3 * width, a->d_narrow, gradient(unit, TRAIN_QKV_WEIGHT),
                        gradient(unit, TRAIN_QKV_BIAS));
  train_layernorm_backward(a->d_narrow, in, parameter(unit, TRAIN_NORM1_WEIGHT), b->mean1, b->rstd1,
                           a->rows, width, a->d_stream, gradient(unit, TRAIN_NORM1_WEIGHT),
                           gradient(unit, TRAIN_NORM1_BIAS));
}

static coll_status_t block_backward(train_model_t *model, const train_source_t *source, int layer) {
  block_activations_t *b = &model->activations->blocks[layer];
  unit_t unit;
  COLL_TRY(acquire(model, source, 1 + layer, layer > 0 ? layer : -1, &unit));
  coll_status_t status = open_gradients(model, source, 1 + layer, &unit);
  if (status == COLL_OK) {
    mlp_half_backward(model, &unit, b);
    attention_half_backward(model, &unit, b, stream_into(model, layer));
  }
  source->release(source->context, 1 + layer);
  COLL_TRY(status);
  return source->close_gradients(source->context, 1 + layer);
}

coll_status_t train_model_forward_backward(train_model_t *model, const train_source_t *source,
                                           const int32_t *tokens, const int32_t *targets,
                                           int sequences, int length, float scale, double *loss) {
  train_activations_t *a = model->activations;
  int layers = model->layout->config.layers;
  unit_t ends;
  double sum = 0;
  COLL_TRY(forward(model, source, tokens, sequences, length));
  COLL_TRY(acquire(model, source, 0, layers, &ends));
  coll_status_t status = open_gradients(model, source, 0, &ends);
  if (status == COLL_OK) {
    classify(model, &ends);
    sum = measure(model, targets);
    classify_backward(model, &ends, targets, scale);
  }
  source->release(source->context, 0);
  COLL_TRY(status);
  for (int layer = layers - 1; layer >= 0; layer--) COLL_TRY(block_backward(model, source, layer));
  train_embedding_backward(a->tokens, a->d_stream, a->sequences, a->length,
                           model->layout->config.width, gradient(&ends, TRAIN_TOKEN_TABLE),
                           gradient(&ends, TRAIN_POSITION_TABLE));
  COLL_TRY(source->close_gradients(source->context, 0));
  *loss = sum;
  return COLL_OK;
}

coll_status_t train_model_loss(train_model_t *model, const train_source_t *source,
                               const int32_t *tokens, const int32_t *targets, int sequences,
                               int length, double *loss) {
  unit_t ends;
  COLL_TRY(forward(model, source, tokens, sequences, length));
  COLL_TRY(acquire(model, source, 0, -1, &ends));
  classify(model, &ends);
  *loss = measure(model, targets);
  source->release(source->context, 0);
  return COLL_OK;
}

coll_status_t train_model_extend(train_model_t *model, const train_source_t *source,
                                 const int32_t *tokens, int first, int count, float *logits) {
  assert(first >= 0 && count >= 1 && first + count <= model->layout->config.context);
  train_activations_t *a = model->activations;
  size_t classes = (size_t)model->layout->config.vocabulary;
  unit_t ends;
  memcpy(a->tokens + first, tokens, (size_t)count * sizeof *tokens);
  COLL_TRY(forward(model, source, a->tokens, 1, first + count));
  COLL_TRY(acquire(model, source, 0, -1, &ends));
  classify(model, &ends);
  memcpy(logits, a->logits + (size_t)(a->rows - 1) * classes, classes * sizeof *logits);
  source->release(source->context, 0);
  return COLL_OK;
}
