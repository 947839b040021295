/* The two halves of a block, forward and backward. */
#include "libtrain/model/block.h"

#include "libtrain/model/context.h"
#include "libtrain/model/layers.h"
#include "libtrain/model/moe_block.h"
#include "libtrain/model/slice_attention.h"

static bool has_experts(const train_model_t *model, const train_unit_view_t *unit) {
  return train_model_has_experts(&model->layout->config, unit->tensors[0].layer);
}

static int heads_of(const train_model_t *model) {
  return (int)model->activations->sizes.heads;
}

static int head_features_of(const train_model_t *model) {
  return (int)model->activations->sizes.head_features;
}

/* ---- forward ---- */

static bool is_sliced(const train_model_t *model) {
  return train_slices_are_cut(&model->options.slices);
}

/* Where the pass computes queries, keys and values. Those of a single sequence that is extended
 * follow those of its earlier positions. */
static void *new_qkv(const train_model_t *model, const train_slot_t *slot,
                     const block_activations_t *b) {
  size_t row = 3 * model->activations->sizes.head_features;
  if (train_context_is_cut(&model->options.axes)) return train_context_qkv(model, b);
  if (is_sliced(model)) return b->qkv;
  return train_dtype_at(model->exec.dtype, b->qkv, (size_t)slot->batch.first * row);
}

static void attend(const train_model_t *model, const train_slot_t *slot,
                   const train_unit_view_t *unit, const block_activations_t *b, const void *in) {
  train_layernorm_forward(model, slot, unit, TRAIN_NORM1_WEIGHT, in, b->normed1, b->mean1,
                          b->rstd1);
  train_column_linear_forward(model, slot, unit, TRAIN_QKV_WEIGHT, b->normed1,
                              new_qkv(model, slot, b), NULL);
  if (train_context_is_cut(&model->options.axes)) {
    train_context_forward(model, slot, b);
  } else if (is_sliced(model)) {
    train_slice_attention_forward(model, slot, b);
  } else {
    model->options.ops->attention_forward(&model->exec, &slot->batch, b->qkv, heads_of(model),
                                          head_features_of(model), b->attended, b->log_sums);
  }
}

/* The input of the second half. */
static void mlp_input_forward(const train_model_t *model, const train_slot_t *slot,
                              const train_unit_view_t *unit, const block_activations_t *b,
                              const void *in) {
  train_row_linear_forward(model, slot, unit, TRAIN_ATTENTION_WEIGHT, b->attended, in,
                           b->mid_stream);
  train_layernorm_forward(model, slot, unit, TRAIN_NORM2_WEIGHT, b->mid_stream, b->normed2,
                          b->mean2, b->rstd2);
}

static void mlp_hidden_forward(const train_model_t *model, const train_slot_t *slot,
                               const train_unit_view_t *unit, const block_activations_t *b) {
  train_column_linear_forward(model, slot, unit, TRAIN_HIDDEN_WEIGHT, b->normed2, b->hidden,
                              b->active);
}

void train_block_forward(train_model_t *model, const train_slot_t *slot,
                         const train_unit_view_t *unit, const block_activations_t *b,
                         const void *in) {
  attend(model, slot, unit, b, in);
  mlp_input_forward(model, slot, unit, b, in);
  if (has_experts(model, unit)) {
    train_moe_route(model, slot, unit, b);
    return;
  }
  mlp_hidden_forward(model, slot, unit, b);
  train_row_linear_forward(model, slot, unit, TRAIN_MLP_WEIGHT, b->active, b->mid_stream, b->out);
}

void train_block_recompute(const train_model_t *model, const train_slot_t *slot,
                           const train_unit_view_t *unit, const block_activations_t *b,
                           const void *in) {
  train_recompute_t what = model->options.recompute;
  if (what != TRAIN_RECOMPUTE_NONE) attend(model, slot, unit, b, in);
  if (what != TRAIN_RECOMPUTE_BLOCK) return;
  mlp_input_forward(model, slot, unit, b, in);
  if (has_experts(model, unit)) {
    train_moe_recompute_shared(model, slot, unit, b);
  } else {
    mlp_hidden_forward(model, slot, unit, b);
  }
}

/* ---- backward ---- */

static const void *dense_backward(const train_model_t *model, const train_slot_t *slot,
                                  const train_unit_view_t *unit, const block_activations_t *b) {
  void *d_hidden = model->activations->d_wide;
  train_layers_keep_stream(model, slot, unit, b->out);
  train_row_linear_backward(model, slot, unit, TRAIN_MLP_WEIGHT, b->active, b->hidden, d_hidden);
  train_layers_keep(model, unit, train_batch_rows(&slot->batch), model->activations->sizes.hidden,
                    d_hidden, b->hidden);
  return train_column_linear_backward(model, slot, unit, TRAIN_HIDDEN_WEIGHT, d_hidden, b->normed2);
}

static void mlp_backward(const train_model_t *model, const train_slot_t *slot,
                         const train_unit_view_t *unit, float scale, const block_activations_t *b) {
  const void *d_normed = has_experts(model, unit)
                             ? train_moe_input_backward(model, slot, unit, scale, b)
                             : dense_backward(model, slot, unit, b);
  train_layernorm_backward(model, slot, unit, TRAIN_NORM2_WEIGHT, d_normed, b->mid_stream, b->mean2,
                           b->rstd2, false, b->d_norm2);
}

static void attention_backward(const train_model_t *model, const train_slot_t *slot,
                               const train_unit_view_t *unit, const block_activations_t *b,
                               const void *in) {
  void *d_attended = model->activations->d_narrow, *d_qkv = model->activations->d_wide;
  train_layers_keep_stream(model, slot, unit, b->mid_stream);
  train_row_linear_backward(model, slot, unit, TRAIN_ATTENTION_WEIGHT, b->attended, NULL,
                            d_attended);
  if (train_context_is_cut(&model->options.axes)) {
    train_context_backward(model, slot, b, d_attended, d_qkv);
  } else if (is_sliced(model)) {
    train_slice_attention_backward(model, slot, b, d_attended, d_qkv);
  } else {
    model->options.ops->attention_backward(&model->exec, &slot->batch, d_attended, b->qkv,
                                           b->attended, b->log_sums, heads_of(model),
                                           head_features_of(model), d_qkv);
  }
  const void *d_normed =
      train_column_linear_backward(model, slot, unit, TRAIN_QKV_WEIGHT, d_qkv, b->normed1);
  train_layers_keep(model, unit, train_batch_rows(&slot->batch),
                    3 * model->activations->sizes.head_features, d_qkv, b->qkv);
  train_layernorm_backward(model, slot, unit, TRAIN_NORM1_WEIGHT, d_normed, in, b->mean1, b->rstd1,
                           false, b->d_norm1);
}

void train_block_backward(const train_model_t *model, const train_slot_t *slot,
                          const train_unit_view_t *unit, float scale, const block_activations_t *b,
                          const void *in) {
  mlp_backward(model, slot, unit, scale, b);
  attention_backward(model, slot, unit, b, in);
}

static void dense_backward_weight(const train_model_t *model, const train_slot_t *slot,
                                  const train_unit_view_t *unit, const block_activations_t *b) {
  train_row_linear_backward_weight(model, slot, unit, TRAIN_MLP_WEIGHT, b->out, b->active);
  train_column_linear_backward_weight(model, slot, unit, TRAIN_HIDDEN_WEIGHT, b->hidden,
                                      b->normed2);
}

void train_block_backward_weight(const train_model_t *model, const train_slot_t *slot,
                                 const train_unit_view_t *unit, const block_activations_t *b) {
  (has_experts(model, unit) ? train_moe_input_backward_weight : dense_backward_weight)(model, slot,
                                                                                       unit, b);
  train_layernorm_backward_weight(model, unit, TRAIN_NORM2_WEIGHT, b->d_norm2);
  train_row_linear_backward_weight(model, slot, unit, TRAIN_ATTENTION_WEIGHT, b->mid_stream,
                                   b->attended);
  train_column_linear_backward_weight(model, slot, unit, TRAIN_QKV_WEIGHT, b->qkv, b->normed1);
  train_layernorm_backward_weight(model, unit, TRAIN_NORM1_WEIGHT, b->d_norm1);
}
