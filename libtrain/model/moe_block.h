/*
 * The second half of a block with experts (model/experts.h). The router and the shared expert,
 * which is the block's dense MLP, are of the block's unit; the experts are a unit of their own, so
 * that the pass acquires one after the other.
 */
#ifndef LIBTRAIN_MODEL_MOE_BLOCK_H
#define LIBTRAIN_MODEL_MOE_BLOCK_H

#include "libtrain/model/activations.h"
#include "libtrain/model/model.h"
#include "libtrain/model/unit.h"

/* With the block's unit: chooses experts for the rows of b->normed2, and computes what the shared
 * expert adds to b->mid_stream, in b->out. Recomputing repeats only the shared expert's hidden
 * layer. */
void train_moe_route(train_model_t *model, const train_slot_t *slot, const train_unit_view_t *unit,
                     const block_activations_t *b);
void train_moe_recompute_shared(const train_model_t *model, const train_slot_t *slot,
                                const train_unit_view_t *unit, const block_activations_t *b);

/* With the experts' unit: computes b->out. Recomputing leaves that out. */
void train_moe_forward(const train_model_t *model, const train_slot_t *slot,
                       const train_unit_view_t *experts, const block_activations_t *b);
void train_moe_recompute(const train_model_t *model, const train_slot_t *slot,
                         const train_unit_view_t *experts, const block_activations_t *b);

/* With the experts' unit, before train_moe_input_backward: from the gradient of b->out, in the
 * model's d_stream, to those of the experts' inputs and parameters. Here and below: if the unit's
 * gradients are not open, keeps in `b` what is needed to compute those of parameters later. */
void train_moe_backward(const train_model_t *model, const train_slot_t *slot,
                        const train_unit_view_t *experts, const block_activations_t *b);

/* With the block's unit: returns the gradient of b->normed2, valid until the next call of a layer
 * or gather. */
const void *train_moe_input_backward(const train_model_t *model, const train_slot_t *slot,
                                     const train_unit_view_t *unit, float scale,
                                     const block_activations_t *b);

/* The parameters' gradients alone, which need no parameters: with the experts' unit and with the
 * block's. */
void train_moe_backward_weight(const train_model_t *model, const train_slot_t *slot,
                               const train_unit_view_t *experts, const block_activations_t *b);
void train_moe_input_backward_weight(const train_model_t *model, const train_slot_t *slot,
                                     const train_unit_view_t *unit, const block_activations_t *b);

#endif
