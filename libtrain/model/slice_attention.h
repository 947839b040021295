/*
 * Attention of sequences that are computed slice by slice (Li et al. 2021). A slice's queries see
 * keys and values of their own slice and of those before it, which stay in the micro-batch's slots.
 * Backward goes from the last slice to the first: each adds to the gradients of the keys and values
 * of earlier slices, in float32, and those of its own are then complete. There is one array of such
 * gradients for each block, so that the backward passes of a micro-batch follow each other.
 */
#ifndef LIBTRAIN_MODEL_SLICE_ATTENTION_H
#define LIBTRAIN_MODEL_SLICE_ATTENTION_H

#include "libtrain/model/activations.h"
#include "libtrain/model/model.h"

/* Computes b->attended and b->log_sums from b->qkv of this slice and the slices before it. */
void train_slice_attention_forward(const train_model_t *model, const train_slot_t *slot,
                                   const block_activations_t *b);

/* d_qkv[rows, 3 * head_features] from d_attended[rows, head_features]. */
void train_slice_attention_backward(const train_model_t *model, const train_slot_t *slot,
                                    const block_activations_t *b, const void *d_attended,
                                    void *d_qkv);

#endif
