/*
 * The two passes of the model. Forward keeps what backward needs; backward walks the layers in
 * reverse with the gradient of the residual stream in one array, to which every block adds.
 */
#include <assert.h>
#include <string.h>

#include "libtrain/model_internal.h"
#include "libtrain/ops.h"

/* A layer's tensor in an arena of the model's layout: its parameters or its gradients. */
static float *block_at(const train_model_t *model, float *arena, int layer, block_tensor_t which) {
  return arena + model->tensors[block_tensor_index(layer, which)].offset;
}

static float *final_at(const train_model_t *model, float *arena, int which) {
  return arena + model->tensors[final_tensor_index(model, which)].offset;
}

static float *table_at(const train_model_t *model, float *arena, int which) {
  return arena + model->tensors[which].offset;
}

static void attention_half(train_model_t *model, int layer, const float *in) {
  train_activations_t *a = model->activations;
  block_activations_t *b = &a->blocks[layer];
  float *p = model->parameters;
  int width = model->config.width;
  train_layernorm_forward(in, block_at(model, p, layer, NORM1_WEIGHT),
                          block_at(model, p, layer, NORM1_BIAS), a->rows, width, b->normed1,
                          b->mean1, b->rstd1);
  train_linear_forward(b->normed1, block_at(model, p, layer, QKV_WEIGHT),
                       block_at(model, p, layer, QKV_BIAS), a->rows, width, 3 * width, b->qkv);
  train_attention_forward(b->qkv, a->sequences, a->length, model->config.heads, width, b->weights,
                          b->attended);
  train_linear_forward(b->attended, block_at(model, p, layer, ATTENTION_WEIGHT),
                       block_at(model, p, layer, ATTENTION_BIAS), a->rows, width, width,
                       a->projected);
  train_residual_forward(in, a->projected, (long)a->rows * width, b->middle);
}

static void mlp_half(train_model_t *model, int layer) {
  train_activations_t *a = model->activations;
  block_activations_t *b = &a->blocks[layer];
  float *p = model->parameters;
  int width = model->config.width;
  train_layernorm_forward(b->middle, block_at(model, p, layer, NORM2_WEIGHT),
                          block_at(model, p, layer, NORM2_BIAS), a->rows, width, b->normed2,
                          b->mean2, b->rstd2);
  train_linear_forward(b->normed2, block_at(model, p, layer, HIDDEN_WEIGHT),
                       block_at(model, p, layer, HIDDEN_BIAS), a->rows, width, 4 * width,
                       b->hidden);
  train_gelu_forward(b->hidden, (long)a->rows * 4 * width, b->active);
  train_linear_forward(b->active, block_at(model, p, layer, MLP_WEIGHT),
                       block_at(model, p, layer, MLP_BIAS), a->rows, 4 * width, width,
                       a->projected);
  train_residual_forward(b->middle, a->projected, (long)a->rows * width, b->out);
}

/* The stream that enters a layer; past the last one, what the final layernorm sees. */
static const float *stream_into(const train_model_t *model, int layer) {
  const train_activations_t *a = model->activations;
  return layer == 0 ? a->embedded : a->blocks[layer - 1].out;
}

float *train_model_forward(train_model_t *model, const int32_t *tokens, int sequences, int length) {
  assert(sequences >= 1 && sequences <= model->sequences);
  assert(length >= 1 && length <= model->config.context);
  train_activations_t *a = model->activations;
  float *p = model->parameters;
  int width = model->config.width, layers = model->config.layers;
  a->sequences = sequences;
  a->length = length;
  a->rows = sequences * length;
  memcpy(a->tokens, tokens, (size_t)a->rows * sizeof *tokens);
  train_embedding_forward(tokens, table_at(model, p, TOKEN_TABLE),
                          table_at(model, p, POSITION_TABLE), sequences, length, width,
                          a->embedded);
  for (int layer = 0; layer < layers; layer++) {
    attention_half(model, layer, stream_into(model, layer));
    mlp_half(model, layer);
  }
  train_layernorm_forward(stream_into(model, layers), final_at(model, p, FINAL_WEIGHT),
                          final_at(model, p, FINAL_BIAS), a->rows, width, a->normed, a->mean,
                          a->rstd);
  train_linear_forward(a->normed, table_at(model, p, TOKEN_TABLE), NULL, a->rows, width,
                       model->config.vocabulary, a->logits);
  return a->logits;
}

double train_model_loss(train_model_t *model, const int32_t *targets) {
  train_activations_t *a = model->activations;
  train_cross_entropy_forward(targets, a->rows, model->config.vocabulary, a->logits, a->losses);
  double sum = 0;
  for (int row = 0; row < a->rows; row++) sum += (double)a->losses[row];
  return sum;
}

static void mlp_half_backward(train_model_t *model, int layer, float *g) {
  train_activations_t *a = model->activations;
  block_activations_t *b = &a->blocks[layer];
  float *p = model->parameters;
  int width = model->config.width;
  train_linear_backward(a->d_stream, b->active, block_at(model, p, layer, MLP_WEIGHT), a->rows,
                        4 * width, width, a->d_wide, block_at(model, g, layer, MLP_WEIGHT),
                        block_at(model, g, layer, MLP_BIAS));
  train_gelu_backward(b->hidden, (long)a->rows * 4 * width, a->d_wide);
  train_linear_backward(a->d_wide, b->normed2, block_at(model, p, layer, HIDDEN_WEIGHT), a->rows,
                        width, 4 * width, a->d_narrow, block_at(model, g, layer, HIDDEN_WEIGHT),
                        block_at(model, g, layer, HIDDEN_BIAS));
  train_layernorm_backward(a->d_narrow, b->middle, block_at(model, p, layer, NORM2_WEIGHT),
                           b->mean2, b->rstd2, a->rows, width, a->d_stream,
                           block_at(model, g, layer, NORM2_WEIGHT),
                           block_at(model, g, layer, NORM2_BIAS));
}

static void attention_half_backward(train_model_t *model, int layer, float *g) {
  train_activations_t *a = model->activations;
  block_activations_t *b = &a->blocks[layer];
  float *p = model->parameters;
  int width = model->config.width;
  train_linear_backward(a->d_stream, b->attended, block_at(model, p, layer, ATTENTION_WEIGHT),
                        a->rows, width, width, a->d_narrow,
                        block_at(model, g, layer, ATTENTION_WEIGHT),
                        block_at(model, g, layer, ATTENTION_BIAS));
  train_attention_backward(a->d_narrow, b->qkv, b->weights, a->sequences, a->length,
                           model->config.heads, width, a->scratch, a->d_wide);
  train_linear_backward(a->d_wide, b->normed1, block_at(model, p, layer, QKV_WEIGHT), a->rows,
                        width, 3 * width, a->d_narrow, block_at(model, g, layer, QKV_WEIGHT),
                        block_at(model, g, layer, QKV_BIAS));
  train_layernorm_backward(a->d_narrow, stream_into(model, layer),
                           block_at(model, p, layer, NORM1_WEIGHT), b->mean1, b->rstd1, a->rows,
                           width, a->d_stream, block_at(model, g, layer, NORM1_WEIGHT),
                           block_at(model, g, layer, NORM1_BIAS));
}

void train_model_backward(train_model_t *model, const int32_t *targets, float scale,
                          float *gradients) {
  train_activations_t *a = model->activations;
  float *p = model->parameters, *g = gradients;
  int width = model->config.width, layers = model->config.layers;
  train_cross_entropy_backward(targets, a->rows, model->config.vocabulary, scale, a->logits);
  train_linear_backward(a->logits, a->normed, table_at(model, p, TOKEN_TABLE), a->rows, width,
                        model->config.vocabulary, a->d_narrow, table_at(model, g, TOKEN_TABLE),
                        NULL);
  memset(a->d_stream, 0, (size_t)a->rows * (size_t)width * sizeof *a->d_stream);
  train_layernorm_backward(a->d_narrow, stream_into(model, layers),
                           final_at(model, p, FINAL_WEIGHT), a->mean, a->rstd, a->rows, width,
                           a->d_stream, final_at(model, g, FINAL_WEIGHT),
                           final_at(model, g, FINAL_BIAS));
  for (int layer = layers - 1; layer >= 0; layer--) {
    mlp_half_backward(model, layer, g);
    attention_half_backward(model, layer, g);
  }
  train_embedding_backward(a->tokens, a->d_stream, a->sequences, a->length, width,
                           table_at(model, g, TOKEN_TABLE), table_at(model, g, POSITION_TABLE));
}
