/*
 * The computations of a GPT-2: embeddings, pre-layernorm blocks of causal attention and a GELU MLP,
 * a final layernorm, and a classifier tied to the token embedding. A model computes a chunk of the
 * part that a rank holds (shard/part.h): on one rank everything. It allocates all arrays at once,
 * for each micro-batch in flight. It gets parameters and gradients unit by unit from a
 * train_param_provider_t. Passes fail only if the provider or an axis does.
 */
#ifndef LIBTRAIN_MODEL_MODEL_H
#define LIBTRAIN_MODEL_MODEL_H

#include <stdint.h>

#include "base/status.h"
#include "libtrain/model/layout.h"
#include "libtrain/model/model_options.h"
#include "libtrain/model/param_provider.h"
#include "libtrain/ops/router.h"

typedef struct train_model {
  const train_layout_t *layout;
  train_model_options_t options;
  train_exec_t exec;            /* executes its operators */
  train_router_result_t routed; /* summed over the blocks with experts of all forward passes; the
                                 * caller may set it to 0 */
  struct train_activations *activations;
} train_model_t;

/* Creates a model of that layout, which must outlive it. COLL_ERROR_MEMORY states the required
 * size. */
coll_status_t train_model_create(const train_layout_t *layout, const train_model_options_t *options,
                                 train_model_t **model);
void train_model_destroy(train_model_t *model);

/* Bytes of all arrays that such a model allocates. */
size_t train_model_bytes(const train_layout_t *layout, const train_model_options_t *options);

/* ---- a chunk ---------------------------------------------------------------------------------
 * A pipeline's executor runs passes of the chunk options.chunk of the layout's part. The first
 * chunk of a model embeds tokens, the last one classifies; all others get the residual stream from
 * the chunk before. With cut tensors all tensor and context ranks make the same calls. */

/* The slot of a micro-batch, from 0 to options.slots - 1, or of a slice of it. */
int train_model_slot(const train_model_t *model, int micro_batch, int slice);

/* The rows of a pass: of each sequence, `length` positions of this context rank, one segment or two
 * (options.axes), or those of the slot's slice. */
train_batch_t train_model_batch(const train_model_t *model, int slot, int sequences, int length);

/* Elements of the residual stream of a micro-batch on this rank, and what the chunk reads and
 * writes of it, of the element type of activations (options.precision): its input and output in the
 * slot, and the gradient of the output, which the backward pass turns into that of the input. */
size_t train_model_stream_count(const train_model_t *model, int sequences, int length);
void *train_model_input(const train_model_t *model, int slot);
void *train_model_output(const train_model_t *model, int slot);
void *train_model_gradient(const train_model_t *model);

/* Runs tokens[sequences * length], or the input of the slot unless the chunk embeds, up to the
 * output. With slices `length` is that of the slot's slice, whose positions follow those of the
 * slices before it in the micro-batch: these have run before, and their slots are unchanged. The
 * backward passes of a micro-batch come in reverse order, with no other one between them. */
coll_status_t train_model_forward(train_model_t *model, const train_param_provider_t *provider,
                                  int slot, const int32_t *tokens, int sequences, int length);

/* Passes scale * d loss / d parameters of the slot's micro-batch to the provider. If the chunk
 * classifies, *loss is the loss in nats summed over this rank's positions, equal on all tensor
 * ranks; otherwise 0, and the gradient of the output must be in train_model_gradient. Not for a
 * forward_only model. */
coll_status_t train_model_backward(train_model_t *model, const train_param_provider_t *provider,
                                   int slot, const int32_t *targets, float scale, double *loss);

/* The same in two parts, with options.split_backward, for a chunk that does not both embed and
 * classify (Qi et al. 2023, zero bubble). The first one turns the gradient of the output into that
 * of the input, on which the chunk before waits; it needs the parameters. The gradients of the
 * classifier and the final layernorm are computed there, because the logits are never all stored.
 * The second one, any time later, passes the gradients of the blocks, their experts and the
 * embeddings to the provider without the parameters; the slot is in use until then. */
coll_status_t train_model_backward_input(train_model_t *model,
                                         const train_param_provider_t *provider, int slot,
                                         const int32_t *targets, float scale, double *loss);
coll_status_t train_model_backward_weight(train_model_t *model,
                                          const train_param_provider_t *provider, int slot);

/* The loss of the slot's micro-batch; the chunk must classify. */
coll_status_t train_model_classify(train_model_t *model, const train_param_provider_t *provider,
                                   int slot, const int32_t *targets, double *loss);

/* Processes tokens[count] as positions first .. first + count - 1 of a single sequence, or the
 * input of slot 0 unless the chunk embeds, up to its output. Previous calls must have processed
 * positions 0 .. first - 1 with the same parameters; first + count <= context. If the chunk
 * classifies, logits[vocabulary] receives the logits of the token after the last one, equal on all
 * tensor ranks; otherwise it may be NULL. Any other pass ends the sequence. Uses the stored keys
 * and values as a KV cache, so the model must be forward_only or recompute nothing; experts drop
 * nothing, so unless it is forward_only their capacity must be unlimited. Not with cut sequences or
 * sequence parallelism. */
coll_status_t train_model_extend(train_model_t *model, const train_param_provider_t *provider,
                                 const int32_t *tokens, int first, int count, float *logits);

/* ---- the whole model --------------------------------------------------------------------------
 */

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

#endif
