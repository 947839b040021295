/*
 * Moves rows between the ranks that have routed them and the ranks that have their experts
 * (GShard, Lepikhin et al. 2020): an all-to-all of counts, and one of rows in each direction. A
 * rank sends its rows sorted by expert; they arrive sorted by rank, then by expert, and are copied
 * to where rows of each expert are consecutive.
 */
#ifndef LIBTRAIN_MODEL_EXPERT_EXCHANGE_H
#define LIBTRAIN_MODEL_EXPERT_EXCHANGE_H

#include "libtrain/model/experts.h"

/* Counts the rows that arrive from each rank: fills activations->arrived, starts and counts. After
 * a failure of the axis there are none. */
void train_expert_exchange_counts(const train_experts_t *layer,
                                  const train_experts_activations_t *activations);

/* sorted[expert_slots, width] = own[slots, width] of all ranks; unused slots are zero. */
void train_expert_exchange_send(const train_experts_t *layer,
                                const train_experts_activations_t *activations,
                                const train_experts_buffers_t *buffers, const void *own,
                                void *sorted);

/* The way back. */
void train_expert_exchange_return(const train_experts_t *layer,
                                  const train_experts_activations_t *activations,
                                  const train_experts_buffers_t *buffers, const void *sorted,
                                  void *own);

#endif
