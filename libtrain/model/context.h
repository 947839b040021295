/*
 * Attention of sequences whose positions are cut over the context ranks. Two kinds:
 *
 *   ring (Liu et al. 2023)        a rank keeps its queries; keys and values of all ranks pass by
 *   Ulysses (Jacobs et al. 2023)  an all-to-all gives each rank all positions of some heads
 *
 * A ring's rank has two segments of each sequence, an early and a late one, so that causal ranks
 * work alike; a rank of Ulysses has one. Everything but attention is computed row by row and does
 * not know of the cut.
 *
 * With p ranks, R rows and F features of all heads on a rank, e bytes per element, a rank sends for
 * a block's attention:
 *
 *   ring      forward   (p - 1) 2 R F e
 *             backward  (p - 1) 2 R F (e + 4)    keys, values, and their gradients in float32
 *   Ulysses   forward   (p - 1) 4 R F e / p
 *             backward  (p - 1) 4 R F e / p
 */
#ifndef LIBTRAIN_MODEL_CONTEXT_H
#define LIBTRAIN_MODEL_CONTEXT_H

#include <stdbool.h>

#include "libtrain/model/activations.h"
#include "libtrain/model/model.h"

/* Whether sequences are cut, so that the functions below replace the attention operators. */
bool train_context_is_cut(const train_model_axes_t *axes);

/* The rows of the context rank `rank` of a pass: of each sequence, `length` positions. */
train_batch_t train_context_batch(const train_model_axes_t *axes, int rank, int sequences,
                                  int length);

/* Where the block's queries, keys and values of this rank's rows, [rows, 3 * head_features], are to
 * be computed for train_context_forward. */
void *train_context_qkv(const train_model_t *model, const block_activations_t *b);

/* Computes b->attended and what backward needs. */
void train_context_forward(const train_model_t *model, const train_slot_t *slot,
                           const block_activations_t *b);

/* d_qkv[rows, 3 * head_features] from d_attended[rows, head_features]. */
void train_context_backward(const train_model_t *model, const train_slot_t *slot,
                            const block_activations_t *b, const void *d_attended, void *d_qkv);

/* ---- the kinds ---- */

void train_context_ring_forward(const train_model_t *model, const train_slot_t *slot,
                                const block_activations_t *b);
void train_context_ring_backward(const train_model_t *model, const train_slot_t *slot,
                                 const block_activations_t *b, const void *d_attended, void *d_qkv);
void train_context_ulysses_forward(const train_model_t *model, const train_slot_t *slot,
                                   const block_activations_t *b);
void train_context_ulysses_backward(const train_model_t *model, const train_slot_t *slot,
                                    const block_activations_t *b, const void *d_attended,
                                    void *d_qkv);

#endif
