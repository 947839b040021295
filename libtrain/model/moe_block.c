/* With tensor ranks the results of experts are summed over them like those of the second layer of a
 * dense MLP: the ranks have parts of each row's result, or each has the results of some rows. */
#include "libtrain/model/moe_block.h"

#include "libtrain/model/layers.h"

static bool has_shared(const train_model_t *model) {
  return model->layout->config.shared_expert != 0;
}

/* The layer without its tensors. */
static train_experts_t layer_of(const train_model_t *model, const train_slot_t *slot) {
  const train_model_axes_t *axes = &model->options.axes;
  const train_part_t *part = &model->layout->part;
  train_experts_t layer = {.exec = &model->exec,
                           .router = train_router_of(model->layout, &model->options),
                           .batch = slot->batch,
                           .hidden_width = (int)model->activations->sizes.expert_hidden,
                           .first_tensor_rank = part->tensor_rank == 0,
                           .experts = part->expert_ranks > 1 ? axes->experts : NULL,
                           .context = axes->context,
                           .tensor = part->tensor_ranks > 1 ? axes->tensor : NULL};
  if (!slot->drops) layer.router.capacity_factor = 0;
  return layer;
}

/* The layer with the gate of the block's unit. */
static train_experts_t layer_with_gate(const train_model_t *model, const train_slot_t *slot,
                                       const train_unit_view_t *unit) {
  train_experts_t layer = layer_of(model, slot);
  layer.gate = unit_parameter(unit, TRAIN_GATE_WEIGHT);
  return layer;
}

static void set_gradients(const train_unit_view_t *experts, train_experts_t *layer) {
  if (experts->gradients == NULL) return;
  layer->d_hidden_weight = unit_gradient(experts, TRAIN_EXPERT_HIDDEN_WEIGHT);
  layer->d_hidden_bias = unit_gradient(experts, TRAIN_EXPERT_HIDDEN_BIAS);
  layer->d_output_weight = unit_gradient(experts, TRAIN_EXPERT_OUTPUT_WEIGHT);
  layer->d_output_bias = unit_gradient(experts, TRAIN_EXPERT_OUTPUT_BIAS);
}

/* The layer with the tensors of the experts' unit, and their gradients if they are open. */
static train_experts_t layer_with_experts(const train_model_t *model, const train_slot_t *slot,
                                          const train_unit_view_t *experts) {
  const train_part_t *part = &model->layout->part;
  train_experts_t layer = layer_of(model, slot);
  bool adds_bias = part->whole_experts || part->tensor_rank == 0;
  layer.hidden_weight = unit_parameter(experts, TRAIN_EXPERT_HIDDEN_WEIGHT);
  layer.hidden_bias = unit_parameter(experts, TRAIN_EXPERT_HIDDEN_BIAS);
  layer.output_weight = unit_parameter(experts, TRAIN_EXPERT_OUTPUT_WEIGHT);
  layer.output_bias = adds_bias ? unit_parameter(experts, TRAIN_EXPERT_OUTPUT_BIAS) : NULL;
  set_gradients(experts, &layer);
  return layer;
}

/* ---- forward ---- */

void train_moe_recompute_shared(const train_model_t *model, const train_slot_t *slot,
                                const train_unit_view_t *unit, const block_activations_t *b) {
  if (!has_shared(model)) return;
  train_column_linear_forward(model, slot, unit, TRAIN_HIDDEN_WEIGHT, b->normed2, b->hidden,
                              b->active);
}

void train_moe_route(train_model_t *model, const train_slot_t *slot, const train_unit_view_t *unit,
                     const block_activations_t *b) {
  train_experts_t layer = layer_with_gate(model, slot, unit);
  layer.router.layer = model->activations->sizes.first_layer + (int)(b - slot->blocks);
  const void *in = train_layers_gather(model, slot, b->normed2);
  const train_router_result_t result = train_experts_route(&layer, in, &b->experts);
  model->routed.balance += result.balance;
  model->routed.z += result.z;
  model->routed.kept += result.kept;
  model->routed.dropped += result.dropped;
  if (!has_shared(model)) return;
  train_column_linear_whole_forward(model, slot, unit, TRAIN_HIDDEN_WEIGHT, in, b->hidden,
                                    b->active);
  train_row_linear_forward(model, slot, unit, TRAIN_MLP_WEIGHT, b->active, b->mid_stream, b->out);
}

/* Adds the results of the experts to the residual stream. */
static void combine(const train_model_t *model, const train_slot_t *slot,
                    const train_experts_t *layer, const block_activations_t *b) {
  const void *residual = has_shared(model) ? b->out : b->mid_stream;
  void *combined = model->activations->combined;
  if (layer->tensor == NULL) {
    train_experts_combine_forward(layer, &b->experts, residual, b->out);
    return;
  }
  void *partial = train_layers_partial(model, combined);
  train_experts_combine_forward(layer, &b->experts, NULL, partial);
  const void *sums = train_layers_reduce(model, slot, partial, combined);
  model->options.ops->bias_residual(&model->exec, sums, NULL, residual,
                                    train_stream_rows(model, slot), layer->router.width, b->out);
}

void train_moe_recompute(const train_model_t *model, const train_slot_t *slot,
                         const train_unit_view_t *experts, const block_activations_t *b) {
  const train_experts_t layer = layer_with_experts(model, slot, experts);
  train_experts_forward(&layer, train_layers_gather(model, slot, b->normed2), &b->experts,
                        &model->activations->experts);
}

void train_moe_forward(const train_model_t *model, const train_slot_t *slot,
                       const train_unit_view_t *experts, const block_activations_t *b) {
  const train_experts_t layer = layer_with_experts(model, slot, experts);
  train_moe_recompute(model, slot, experts, b);
  combine(model, slot, &layer, b);
}

/* ---- backward ---- */

void train_moe_backward(const train_model_t *model, const train_slot_t *slot,
                        const train_unit_view_t *experts, const block_activations_t *b) {
  const train_experts_t layer = layer_with_experts(model, slot, experts);
  const void *d_out = train_layers_gather(model, slot, model->activations->d_stream);
  train_experts_backward(&layer, d_out, experts->overwrite, &b->experts,
                         &model->activations->experts);
}

/* The shared expert up to its hidden layer, as the dense MLP of block.c. */
static void shared_backward(const train_model_t *model, const train_slot_t *slot,
                            const train_unit_view_t *unit, const block_activations_t *b) {
  const train_activations_t *a = model->activations;
  train_layers_keep_stream(model, slot, unit, b->out);
  train_row_linear_backward(model, slot, unit, TRAIN_MLP_WEIGHT, b->active, b->hidden, a->d_wide);
  train_layers_keep(model, unit, train_batch_rows(&slot->batch), a->sizes.hidden, a->d_wide,
                    b->hidden);
}

const void *train_moe_input_backward(const train_model_t *model, const train_slot_t *slot,
                                     const train_unit_view_t *unit, float scale,
                                     const block_activations_t *b) {
  const train_activations_t *a = model->activations;
  const train_experts_t layer = layer_with_gate(model, slot, unit);
  bool open = unit->gradients != NULL;
  if (has_shared(model)) shared_backward(model, slot, unit, b);
  const void *in = open ? train_layers_gather(model, slot, b->normed2) : NULL;
  if (has_shared(model)) {
    train_column_linear_partial_backward(model, slot, unit, TRAIN_HIDDEN_WEIGHT, a->d_wide, in,
                                         a->d_narrow);
  }
  train_experts_input_backward(&layer, in, scale, unit->overwrite, &b->experts, &a->experts,
                               has_shared(model), a->d_narrow,
                               open ? unit_gradient(unit, TRAIN_GATE_WEIGHT) : NULL);
  return train_layers_reduce(model, slot, a->d_narrow, a->gathered);
}

/* ---- the parameters' gradients alone ---- */

void train_moe_backward_weight(const train_model_t *model, const train_slot_t *slot,
                               const train_unit_view_t *experts, const block_activations_t *b) {
  train_experts_t layer = layer_of(model, slot);
  set_gradients(experts, &layer);
  train_experts_backward_weight(&layer, experts->overwrite, &b->experts);
}

/* Gathers the rows of normed2 once for the shared expert and the gate. */
void train_moe_input_backward_weight(const train_model_t *model, const train_slot_t *slot,
                                     const train_unit_view_t *unit, const block_activations_t *b) {
  const train_experts_t layer = layer_of(model, slot);
  if (has_shared(model)) {
    train_row_linear_backward_weight(model, slot, unit, TRAIN_MLP_WEIGHT, b->out, b->active);
  }
  const void *in = train_layers_gather(model, slot, b->normed2);
  if (has_shared(model)) {
    train_column_linear_partial_backward(model, slot, unit, TRAIN_HIDDEN_WEIGHT, b->hidden, in,
                                         NULL);
  }
  train_experts_gate_backward_weight(&layer, in, unit->overwrite, &b->experts,
                                     unit_gradient(unit, TRAIN_GATE_WEIGHT));
}
