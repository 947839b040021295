/*
 * The passes of the model. Forward stores the activations that backward needs. Backward visits the
 * blocks in reverse order; all of them add to one array with the gradient of the residual stream.
 */
#include <assert.h>
#include <string.h>

#include "libtrain/model/activations.h"
#include "libtrain/model/block.h"
#include "libtrain/model/context.h"
#include "libtrain/model/layers.h"
#include "libtrain/model/model.h"
#include "libtrain/model/moe_block.h"
#include "libtrain/model/unit.h"
#include "libtrain/parallel/axis.h"

/* ---- the chunk ---- */

static bool embeds(const train_model_t *model) {
  return model->options.chunk == 0 && train_part_embeds(&model->layout->part);
}

static bool classifies(const train_model_t *model) {
  const train_part_t *part = &model->layout->part;
  return model->options.chunk == part->chunk_count - 1 &&
         train_part_classifies(part, model->layout->config.layers);
}

static int layers_of(const train_model_t *model) {
  return model->activations->sizes.layers;
}

/* The tokens whose rows the part's token table has. */
static train_vocabulary_t vocabulary_of(const train_model_t *model) {
  const train_part_t *part = &model->layout->part;
  train_vocabulary_t own;
  train_cut_range(model->layout->config.vocabulary, part->tensor_rank, part->tensor_ranks,
                  &own.first, &own.count);
  return own;
}

/* The unit of the chunk's first layer. */
static int first_unit(const train_model_t *model) {
  return 1 + train_layout_chunk_start(model->layout, model->options.chunk);
}

/* The unit of a layer's experts; -1 if it has none. */
static int experts_unit(const train_model_t *model, int layer) {
  return train_layout_experts_unit(model->layout, first_unit(model) + layer);
}

/* The first unit that the backward pass of a layer acquires; -1 after the last layer. */
static int backward_unit(const train_model_t *model, int layer) {
  if (layer < 0) return -1;
  bool recomputes = model->options.recompute == TRAIN_RECOMPUTE_BLOCK;
  int experts = experts_unit(model, layer);
  return experts >= 0 && !recomputes ? experts : first_unit(model) + layer;
}

/* The residual stream that enters a layer; for layer == layers the chunk's output. */
static void *layer_input(const train_slot_t *slot, int layer) {
  return layer == 0 ? slot->embedded : slot->blocks[layer - 1].out;
}

train_batch_t train_model_batch(const train_model_t *model, int slot, int sequences, int length) {
  const train_model_axes_t *axes = &model->options.axes;
  int rank = axes->context != NULL ? axes->context->group.rank : 0;
  train_batch_t batch = train_context_batch(axes, rank, sequences, length);
  int slice = model->activations->slots[slot].slice;
  if (slice > 0) batch.first = train_slices_first(&model->options.slices, slice);
  return batch;
}

int train_model_slot(const train_model_t *model, int micro_batch, int slice) {
  return micro_batch * train_slices_count(&model->options.slices) + slice;
}

size_t train_model_stream_count(const train_model_t *model, int sequences, int length) {
  const train_slot_t slot = {.batch = {.sequences = sequences, .length = length}};
  return (size_t)train_stream_rows(model, &slot) * (size_t)model->layout->config.width;
}

void *train_model_input(const train_model_t *model, int slot) {
  return layer_input(&model->activations->slots[slot], 0);
}

void *train_model_output(const train_model_t *model, int slot) {
  return layer_input(&model->activations->slots[slot], layers_of(model));
}

void *train_model_gradient(const train_model_t *model) {
  return model->activations->d_stream;
}

/* Axes fail once, and their results are undefined from there on. */
static coll_status_t check_axes(const train_model_t *model) {
  const train_model_axes_t *axes = &model->options.axes;
  if (axes->tensor != NULL) COLL_TRY(train_axis_status(axes->tensor));
  if (axes->experts != NULL) COLL_TRY(train_axis_status(axes->experts));
  return axes->context != NULL ? train_axis_status(axes->context) : COLL_OK;
}

static coll_status_t acquire(const train_model_t *model, const train_param_provider_t *provider,
                             int index, int next, train_unit_view_t *unit) {
  return unit_acquire(model->layout, model->exec.dtype, provider, index, next, unit);
}

/* ---- forward ---- */

static coll_status_t embed(const train_model_t *model, const train_param_provider_t *provider,
                           const train_slot_t *slot) {
  train_unit_view_t root;
  COLL_TRY(acquire(model, provider, 0, layers_of(model) > 0 ? first_unit(model) : -1, &root));
  bool first = model->layout->part.tensor_rank == 0;
  void *partial = train_layers_partial(model, slot->embedded);
  model->options.ops->embedding_forward(&model->exec, &slot->batch, slot->tokens,
                                        vocabulary_of(model),
                                        unit_parameter(&root, TRAIN_TOKEN_TABLE),
                                        first ? unit_parameter(&root, TRAIN_POSITION_TABLE) : NULL,
                                        model->layout->config.width, partial);
  provider->release(provider->context, 0);
  train_layers_reduce(model, slot, partial, slot->embedded);
  return COLL_OK;
}

static coll_status_t experts_forward(const train_model_t *model,
                                     const train_param_provider_t *provider,
                                     const train_slot_t *slot, int layer, int next) {
  int unit = experts_unit(model, layer);
  train_unit_view_t view;
  COLL_TRY(acquire(model, provider, unit, next, &view));
  train_moe_forward(model, slot, &view, &slot->blocks[layer]);
  provider->release(provider->context, unit);
  return COLL_OK;
}

static coll_status_t block_forward(train_model_t *model, const train_param_provider_t *provider,
                                   const train_slot_t *slot, int layer) {
  int unit = first_unit(model) + layer, experts = experts_unit(model, layer);
  int next = layer + 1 < layers_of(model) ? unit + 1 : classifies(model) ? 0 : -1;
  train_unit_view_t view;
  COLL_TRY(acquire(model, provider, unit, experts >= 0 ? experts : next, &view));
  train_block_forward(model, slot, &view, &slot->blocks[layer], layer_input(slot, layer));
  provider->release(provider->context, unit);
  return experts >= 0 ? experts_forward(model, provider, slot, layer, next) : COLL_OK;
}

/* Everything up to the chunk's output. */
static coll_status_t forward(train_model_t *model, const train_param_provider_t *provider,
                             train_slot_t *slot, const int32_t *tokens,
                             const train_batch_t *batch) {
  assert(batch->sequences >= 1 && batch->sequences <= model->options.sequences);
  assert(batch->length >= 1 && batch->first >= 0);
  assert(train_batch_position(batch, batch->length - 1) < model->layout->config.context);
  slot->batch = *batch;
  if (embeds(model)) {
    memcpy(slot->tokens, tokens, (size_t)train_batch_rows(batch) * sizeof *tokens);
    COLL_TRY(embed(model, provider, slot));
  }
  for (int layer = 0; layer < layers_of(model); layer++) {
    COLL_TRY(block_forward(model, provider, slot, layer));
  }
  return check_axes(model);
}

/* Gathers what the classifier exchanges over the tensor axis, for train_parts_t. */
static void gather_statistics(void *context, const float *own, float *all, size_t floats) {
  train_axis_allgather(context, TRAIN_FLOAT32, own, all, floats);
}

/* The final layernorm, the classifier and the summed loss; with gradients unless d_in is NULL. */
static double classify(const train_model_t *model, const train_unit_view_t *root,
                       const train_slot_t *slot, const int32_t *targets, float scale, void *d_in) {
  const train_activations_t *a = model->activations;
  int tensor_ranks = model->layout->part.tensor_ranks, head = train_layout_head(model->layout);
  const train_parts_t parts = {
      .count = tensor_ranks, .allgather = gather_statistics, .context = model->options.axes.tensor};
  train_layernorm_forward(model, slot, root, TRAIN_FINAL_WEIGHT,
                          layer_input(slot, layers_of(model)), a->normed, a->mean, a->rstd);
  return model->options.ops->classifier(
      &model->exec, train_layers_gather(model, slot, a->normed), unit_parameter(root, head),
      targets, train_batch_rows(&slot->batch), model->layout->config.width, vocabulary_of(model),
      tensor_ranks > 1 ? &parts : NULL, scale, root->overwrite, d_in,
      d_in != NULL ? unit_gradient(root, head) : NULL);
}

/* ---- backward ---- */

static coll_status_t recompute(const train_model_t *model, const train_param_provider_t *provider,
                               const train_slot_t *slot, int layer) {
  int unit = first_unit(model) + layer;
  train_unit_view_t view;
  COLL_TRY(acquire(model, provider, unit, experts_unit(model, layer), &view));
  train_block_recompute(model, slot, &view, &slot->blocks[layer], layer_input(slot, layer));
  provider->release(provider->context, unit);
  return COLL_OK;
}

/* Recomputation needs the block's tensors, then those of its experts. */
static coll_status_t experts_backward(const train_model_t *model,
                                      const train_param_provider_t *provider,
                                      const train_slot_t *slot, int layer) {
  const block_activations_t *b = &slot->blocks[layer];
  bool recomputes = model->options.recompute == TRAIN_RECOMPUTE_BLOCK;
  int unit = experts_unit(model, layer);
  train_unit_view_t view;
  if (recomputes) COLL_TRY(recompute(model, provider, slot, layer));
  COLL_TRY(acquire(model, provider, unit, first_unit(model) + layer, &view));
  if (recomputes) train_moe_recompute(model, slot, &view, b);
  coll_status_t status =
      provider->open_gradients(provider->context, unit, &view.gradients, &view.overwrite);
  if (status == COLL_OK) train_moe_backward(model, slot, &view, b);
  provider->release(provider->context, unit);
  COLL_TRY(status);
  return provider->close_gradients(provider->context, unit);
}

static coll_status_t block_backward(const train_model_t *model,
                                    const train_param_provider_t *provider,
                                    const train_slot_t *slot, int layer, float scale) {
  const block_activations_t *b = &slot->blocks[layer];
  const void *in = layer_input(slot, layer);
  int unit = first_unit(model) + layer;
  bool has_experts = experts_unit(model, layer) >= 0;
  train_unit_view_t view;
  if (has_experts) COLL_TRY(experts_backward(model, provider, slot, layer));
  COLL_TRY(acquire(model, provider, unit, backward_unit(model, layer - 1), &view));
  if (!has_experts || model->options.recompute != TRAIN_RECOMPUTE_BLOCK) {
    train_block_recompute(model, slot, &view, b, in);
  }
  coll_status_t status =
      provider->open_gradients(provider->context, unit, &view.gradients, &view.overwrite);
  if (status == COLL_OK) train_block_backward(model, slot, &view, scale, b, in);
  provider->release(provider->context, unit);
  COLL_TRY(status);
  return provider->close_gradients(provider->context, unit);
}

/* Computes the gradient of the final layernorm's input; unit 0's gradients stay open. */
static coll_status_t classify_backward(const train_model_t *model,
                                       const train_param_provider_t *provider,
                                       const train_slot_t *slot, const int32_t *targets,
                                       float scale, double *loss, train_unit_view_t *root) {
  const train_activations_t *a = model->activations;
  int layers = layers_of(model);
  COLL_TRY(acquire(model, provider, 0, backward_unit(model, layers - 1), root));
  coll_status_t status =
      provider->open_gradients(provider->context, 0, &root->gradients, &root->overwrite);
  if (status == COLL_OK) {
    *loss = classify(model, root, slot, targets, scale, a->d_narrow);
    train_layernorm_backward(model, slot, root, TRAIN_FINAL_WEIGHT,
                             train_layers_reduce(model, slot, a->d_narrow, a->gathered),
                             layer_input(slot, layers), a->mean, a->rstd, true, NULL);
  }
  provider->release(provider->context, 0);
  return status;
}

/* A chunk that embeds but does not classify opens unit 0's gradients here. */
static coll_status_t embed_backward(const train_model_t *model,
                                    const train_param_provider_t *provider,
                                    const train_slot_t *slot, const void *d_stream,
                                    train_unit_view_t *root) {
  const train_model_config_t *config = &model->layout->config;
  const train_tensor_t *table = train_layout_tensor(model->layout, 0, TRAIN_TOKEN_TABLE);
  if (!classifies(model)) {
    *root = (train_unit_view_t){.tensors = train_layout_tensor(model->layout, 0, 0)};
    COLL_TRY(provider->open_gradients(provider->context, 0, &root->gradients, &root->overwrite));
  }
  if (root->overwrite && (!classifies(model) || config->untied)) {
    memset(unit_gradient(root, TRAIN_TOKEN_TABLE), 0, train_tensor_count(table) * sizeof(float));
  }
  model->options.ops->embedding_backward(
      &model->exec, &slot->batch, slot->tokens, vocabulary_of(model),
      train_layers_gather(model, slot, d_stream), config->width, config->context, root->overwrite,
      unit_gradient(root, TRAIN_TOKEN_TABLE), unit_gradient(root, TRAIN_POSITION_TABLE));
  return COLL_OK;
}

/* ---- backward in two parts ---- */

/* The unit is acquired, its gradients are not opened. */
static coll_status_t experts_backward_input(const train_model_t *model,
                                            const train_param_provider_t *provider,
                                            const train_slot_t *slot, int layer) {
  int unit = experts_unit(model, layer);
  train_unit_view_t view;
  COLL_TRY(acquire(model, provider, unit, first_unit(model) + layer, &view));
  train_moe_backward(model, slot, &view, &slot->blocks[layer]);
  provider->release(provider->context, unit);
  return COLL_OK;
}

static coll_status_t block_backward_input(const train_model_t *model,
                                          const train_param_provider_t *provider,
                                          const train_slot_t *slot, int layer, float scale) {
  int unit = first_unit(model) + layer;
  train_unit_view_t view;
  if (experts_unit(model, layer) >= 0) {
    COLL_TRY(experts_backward_input(model, provider, slot, layer));
  }
  COLL_TRY(acquire(model, provider, unit, backward_unit(model, layer - 1), &view));
  train_block_backward(model, slot, &view, scale, &slot->blocks[layer], layer_input(slot, layer));
  provider->release(provider->context, unit);
  return COLL_OK;
}

/* Of a block, or of its experts. */
typedef void weight_backward_t(const train_model_t *model, const train_slot_t *slot,
                               const train_unit_view_t *unit, const block_activations_t *b);

static coll_status_t unit_backward_weight(const train_model_t *model,
                                          const train_param_provider_t *provider,
                                          const train_slot_t *slot, int layer, int unit,
                                          weight_backward_t *compute) {
  train_unit_view_t view = {.tensors = train_layout_tensor(model->layout, unit, 0),
                            .offset = model->layout->units[unit].offset};
  COLL_TRY(provider->open_gradients(provider->context, unit, &view.gradients, &view.overwrite));
  compute(model, slot, &view, &slot->blocks[layer]);
  return provider->close_gradients(provider->context, unit);
}

static coll_status_t block_backward_weight(const train_model_t *model,
                                           const train_param_provider_t *provider,
                                           const train_slot_t *slot, int layer) {
  int experts = experts_unit(model, layer);
  if (experts >= 0) {
    COLL_TRY(
        unit_backward_weight(model, provider, slot, layer, experts, train_moe_backward_weight));
  }
  return unit_backward_weight(model, provider, slot, layer, first_unit(model) + layer,
                              train_block_backward_weight);
}

/* What a block computes in a backward pass, or in the first part of one. */
typedef coll_status_t (*block_pass_t)(const train_model_t *model,
                                      const train_param_provider_t *provider,
                                      const train_slot_t *slot, int layer, float scale);

/* From the loss to the gradient of the first block's input. *root is unit 0, whose gradients stay
 * open, if the chunk classifies. */
static coll_status_t backward_to_stream(const train_model_t *model,
                                        const train_param_provider_t *provider,
                                        const train_slot_t *slot, const int32_t *targets,
                                        float scale, block_pass_t block, double *loss,
                                        train_unit_view_t *root) {
  *loss = 0;
  if (classifies(model)) {
    COLL_TRY(classify_backward(model, provider, slot, targets, scale, loss, root));
  }
  for (int layer = layers_of(model) - 1; layer >= 0; layer--) {
    COLL_TRY(block(model, provider, slot, layer, scale));
  }
  return COLL_OK;
}

/* ---- public functions ---- */

coll_status_t train_model_forward(train_model_t *model, const train_param_provider_t *provider,
                                  int slot, const int32_t *tokens, int sequences, int length) {
  const train_batch_t batch = train_model_batch(model, slot, sequences, length);
  model->activations->slots[slot].drops = true;
  return forward(model, provider, &model->activations->slots[slot], tokens, &batch);
}

coll_status_t train_model_backward(train_model_t *model, const train_param_provider_t *provider,
                                   int slot, const int32_t *targets, float scale, double *loss) {
  assert(!model->options.forward_only);
  const train_slot_t *in_flight = &model->activations->slots[slot];
  train_unit_view_t root;
  double sum;
  COLL_TRY(
      backward_to_stream(model, provider, in_flight, targets, scale, block_backward, &sum, &root));
  if (embeds(model)) {
    COLL_TRY(embed_backward(model, provider, in_flight, model->activations->d_stream, &root));
  }
  COLL_TRY(check_axes(model));
  if (embeds(model) || classifies(model)) {
    COLL_TRY(provider->close_gradients(provider->context, 0));
  }
  *loss = sum;
  return COLL_OK;
}

coll_status_t train_model_backward_input(train_model_t *model,
                                         const train_param_provider_t *provider, int slot,
                                         const int32_t *targets, float scale, double *loss) {
  assert(model->options.split_backward && !(embeds(model) && classifies(model)));
  const train_slot_t *in_flight = &model->activations->slots[slot];
  train_unit_view_t root;
  double sum;
  COLL_TRY(backward_to_stream(model, provider, in_flight, targets, scale, block_backward_input,
                              &sum, &root));
  if (embeds(model)) {
    size_t count = (size_t)train_stream_rows(model, in_flight) * model->activations->sizes.width;
    memcpy(in_flight->embedded, model->activations->d_stream,
           count * train_dtype_bytes(model->exec.dtype));
  }
  COLL_TRY(check_axes(model));
  if (classifies(model)) COLL_TRY(provider->close_gradients(provider->context, 0));
  *loss = sum;
  return COLL_OK;
}

coll_status_t train_model_backward_weight(train_model_t *model,
                                          const train_param_provider_t *provider, int slot) {
  const train_slot_t *in_flight = &model->activations->slots[slot];
  train_unit_view_t root;
  for (int layer = layers_of(model) - 1; layer >= 0; layer--) {
    COLL_TRY(block_backward_weight(model, provider, in_flight, layer));
  }
  if (embeds(model)) {
    COLL_TRY(embed_backward(model, provider, in_flight, in_flight->embedded, &root));
  }
  COLL_TRY(check_axes(model));
  return embeds(model) ? provider->close_gradients(provider->context, 0) : COLL_OK;
}

coll_status_t train_model_classify(train_model_t *model, const train_param_provider_t *provider,
                                   int slot, const int32_t *targets, double *loss) {
  train_unit_view_t root;
  COLL_TRY(acquire(model, provider, 0, -1, &root));
  *loss = classify(model, &root, &model->activations->slots[slot], targets, 0, NULL);
  provider->release(provider->context, 0);
  return check_axes(model);
}

coll_status_t train_model_forward_backward(train_model_t *model,
                                           const train_param_provider_t *provider,
                                           const int32_t *tokens, const int32_t *targets,
                                           int sequences, int length, float scale, double *loss) {
  COLL_TRY(train_model_forward(model, provider, 0, tokens, sequences, length));
  return train_model_backward(model, provider, 0, targets, scale, loss);
}

coll_status_t train_model_loss(train_model_t *model, const train_param_provider_t *provider,
                               const int32_t *tokens, const int32_t *targets, int sequences,
                               int length, double *loss) {
  COLL_TRY(train_model_forward(model, provider, 0, tokens, sequences, length));
  return train_model_classify(model, provider, 0, targets, loss);
}

/* Those of the last row. Each tensor rank computes the logits of its tokens; their sum with the
 * zeros of the others is exact. */
static void last_logits(const train_model_t *model, const train_unit_view_t *root,
                        const train_slot_t *slot, float *logits) {
  const train_activations_t *a = model->activations;
  const train_model_config_t *config = &model->layout->config;
  const train_vocabulary_t own = vocabulary_of(model);
  const train_linear_t classifier = {.in_width = config->width, .out_width = own.count};
  const train_slot_t last = {.batch = {.sequences = 1, .length = 1}};
  size_t vocabulary = (size_t)config->vocabulary,
         at = (size_t)(slot->batch.length - 1) * (size_t)config->width;
  float *here = logits + own.first;
  train_layernorm_forward(
      model, &last, root, TRAIN_FINAL_WEIGHT,
      train_dtype_const_at(model->exec.dtype, layer_input(slot, layers_of(model)), at), a->normed,
      a->mean, a->rstd);
  memset(logits, 0, vocabulary * sizeof *logits);
  model->options.ops->linear_forward(&model->exec, &classifier, a->normed, 1,
                                     unit_parameter(root, train_layout_head(model->layout)), NULL,
                                     NULL, here, NULL);
  train_dtype_widen(model->exec.dtype, here, (size_t)own.count, here);
  if (model->layout->part.tensor_ranks == 1) return;
  train_axis_allreduce(model->options.axes.tensor, TRAIN_FLOAT32, logits, vocabulary);
}

coll_status_t train_model_extend(train_model_t *model, const train_param_provider_t *provider,
                                 const int32_t *tokens, int first, int count, float *logits) {
  assert(model->options.forward_only || model->options.recompute == TRAIN_RECOMPUTE_NONE);
  assert(model->options.forward_only || model->options.experts.capacity_factor == 0);
  assert(!model->options.axes.sequence_parallel && !train_context_is_cut(&model->options.axes));
  const train_batch_t batch = {.sequences = 1, .length = count, .first = first};
  train_slot_t *slot = &model->activations->slots[0];
  train_unit_view_t root;
  slot->drops = false;
  COLL_TRY(forward(model, provider, slot, tokens, &batch));
  if (!classifies(model)) return COLL_OK;
  COLL_TRY(acquire(model, provider, 0, -1, &root));
  last_logits(model, &root, slot, logits);
  provider->release(provider->context, 0);
  return check_axes(model);
}
