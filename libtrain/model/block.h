/* A pre-layernorm transformer block: causal attention and a GELU MLP, each added to the residual
 * stream. */
#ifndef LIBTRAIN_MODEL_BLOCK_H
#define LIBTRAIN_MODEL_BLOCK_H

#include "libtrain/model/activations.h"
#include "libtrain/model/model.h"
#include "libtrain/model/unit.h"

/* Computes b->out of the stream `in`; what experts add to it is left to train_moe_forward. */
void train_block_forward(train_model_t *model, const train_slot_t *slot,
                         const train_unit_view_t *unit, const block_activations_t *b,
                         const void *in);

/* Computes the activations again that recomputation has not stored. */
void train_block_recompute(const train_model_t *model, const train_slot_t *slot,
                           const train_unit_view_t *unit, const block_activations_t *b,
                           const void *in);

/* Turns the gradient of the block's output, in the model's d_stream, into that of its input, and
 * computes the gradients of the unit's parameters. `scale` is that of the loss, for those of the
 * router. After train_moe_backward if the block has experts. If the unit's gradients are not open,
 * keeps in `b` what train_block_backward_weight needs, in place of activations that were needed
 * only until then. */
void train_block_backward(const train_model_t *model, const train_slot_t *slot,
                          const train_unit_view_t *unit, float scale, const block_activations_t *b,
                          const void *in);

/* Computes the gradients of the unit's parameters after the above; needs no parameters. */
void train_block_backward_weight(const train_model_t *model, const train_slot_t *slot,
                                 const train_unit_view_t *unit, const block_activations_t *b);

#endif
