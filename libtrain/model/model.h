/*
 * The computations of a GPT-2: embeddings, pre-layernorm blocks of causal attention and a GELU MLP,
 * a final layernorm, and a classifier tied to the token embedding. A model allocates all arrays for
 * one forward and backward pass at once. It gets parameters and gradients unit by unit from a
 * train_param_provider_t. Passes fail only if the provider does.
 */
#ifndef LIBTRAIN_MODEL_MODEL_H
#define LIBTRAIN_MODEL_MODEL_H

#include <stdint.h>

#include "base/status.h"
#include "libtrain/model/layout.h"
#include "libtrain/model/model_options.h"
#include "libtrain/model/param_provider.h"

typedef struct train_model {
  const train_layout_t *layout;
  train_model_options_t options;
  train_exec_t exec; /* executes its operators */
  struct train_activations *activations;
} train_model_t;

/* Creates a model of that layout, which must outlive it. COLL_ERROR_MEMORY states the required
 * size. */
coll_status_t train_model_create(const train_layout_t *layout, const train_model_options_t *options,
                                 train_model_t **model);
void train_model_destroy(train_model_t *model);

/* Bytes of all arrays that such a model allocates. */
size_t train_model_bytes(const train_layout_t *layout, const train_model_options_t *options);

/* Computes one micro-batch: runs tokens[sequences * length], length <= context, sets *loss to the
 * loss in nats summed over all positions, and passes scale * d loss / d parameters to the provider.
 * Not for a forward_only model. */
coll_status_t train_model_forward_backward(train_model_t *model,
                                           const train_param_provider_t *provider,
                                           const int32_t *tokens, const int32_t *targets,
                                           int sequences, int length, float scale, double *loss);

/* Computes only the loss, summed over all positions. */
coll_status_t train_model_loss(train_model_t *model, const train_param_provider_t *provider,
                               const int32_t *tokens, const int32_t *targets, int sequences,
                               int length, double *loss);

/* Processes tokens[count] as positions first .. first + count - 1 of a single sequence. Previous
 * calls must have processed positions 0 .. first - 1 with the same parameters; first + count <=
 * context. logits[vocabulary] receives the logits of the token after the last one. Any other pass
 * ends the sequence. Uses the stored keys and values as a KV cache, so the model must be
 * forward_only or recompute nothing. */
coll_status_t train_model_extend(train_model_t *model, const train_param_provider_t *provider,
                                 const int32_t *tokens, int first, int count, float *logits);

#endif
