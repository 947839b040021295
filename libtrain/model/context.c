/* Which positions a context rank has, and the choice between the two kinds of attention. */
#include "libtrain/model/context.h"

#include "libtrain/parallel/axis.h"

static bool is_ring(const train_model_axes_t *axes) {
  return axes->context_kind == TRAIN_CONTEXT_RING;
}

bool train_context_is_cut(const train_model_axes_t *axes) {
  return axes->context != NULL && axes->context->group.size > 1;
}

train_batch_t train_context_batch(const train_model_axes_t *axes, int rank, int sequences,
                                  int length) {
  train_batch_t batch = {.sequences = sequences, .length = length};
  int half = length / 2;
  if (!train_context_is_cut(axes)) return batch;
  batch.first = is_ring(axes) ? rank * half : rank * length;
  batch.gap = is_ring(axes) ? 2 * (axes->context->group.size - 1 - rank) * half : 0;
  return batch;
}

void *train_context_qkv(const train_model_t *model, const block_activations_t *b) {
  return is_ring(&model->options.axes) ? b->qkv : model->activations->context.moving[0];
}

void train_context_forward(const train_model_t *model, const train_slot_t *slot,
                           const block_activations_t *b) {
  if (is_ring(&model->options.axes)) {
    train_context_ring_forward(model, slot, b);
  } else {
    train_context_ulysses_forward(model, slot, b);
  }
}

void train_context_backward(const train_model_t *model, const train_slot_t *slot,
                            const block_activations_t *b, const void *d_attended, void *d_qkv) {
  if (is_ring(&model->options.axes)) {
    train_context_ring_backward(model, slot, b, d_attended, d_qkv);
  } else {
    train_context_ulysses_backward(model, slot, b, d_attended, d_qkv);
  }
}
