/*
 * GPT-2's computations: embeddings, pre-layernorm blocks of causal attention and a GELU MLP, a
 * final layernorm, and a classifier tied to the token embedding. A model has the arrays that one
 * forward and backward pass needs, all allocated at once; parameters and gradients it gets unit by
 * unit from a train_source_t. Passes return the source's failures and have none of their own.
 */
#ifndef LIBTRAIN_MODEL_MODEL_H
#define LIBTRAIN_MODEL_MODEL_H

#include <stdint.h>

#include "base/status.h"
#include "libtrain/model/layout.h"
#include "libtrain/model/source.h"
#include "libtrain/ops/ops.h"

/* What the forward pass keeps of each block for the backward pass, and what that makes again from
 * what was kept (Chen et al. 2016); the results have the same bits. In floats per position, C the
 * width: 16 C, 11 C and C, and one block's 16 C more for all blocks together. */
typedef enum train_recompute {
  TRAIN_RECOMPUTE_NONE,
  TRAIN_RECOMPUTE_ATTENTION, /* the first layernorm, queries, keys, values, and the attention */
  TRAIN_RECOMPUTE_BLOCK      /* all but the stream that enters a block */
} train_recompute_t;

typedef struct train_model_options {
  int sequences; /* the most that one pass takes, each of the full context */
  train_recompute_t recompute;
  bool forward_only;      /* for evaluation and sampling alone: keeps keys and values, no more */
  train_pool_t *pool;     /* computes; may be NULL. Outlives the model */
  const train_ops_t *ops; /* NULL: train_ops_host */
} train_model_options_t;

typedef struct train_model {
  const train_layout_t *layout;
  train_model_options_t options;
  struct train_activations *activations;
} train_model_t;

/* A model of that layout, which must outlive it. COLL_ERROR_MEMORY says how much it would take. */
coll_status_t train_model_create(const train_layout_t *layout, const train_model_options_t *options,
                                 train_model_t **model);
void train_model_destroy(train_model_t *model);

/* The bytes of all arrays that such a model allocates. */
size_t train_model_bytes(const train_layout_t *layout, const train_model_options_t *options);

/* One micro-batch: runs tokens[sequences * length], length <= context, and puts the loss in nats,
 * summed over all positions, into *loss; gives scale * d loss / d parameters to the source. Not for
 * a model that is forward_only. */
coll_status_t train_model_forward_backward(train_model_t *model, const train_source_t *source,
                                           const int32_t *tokens, const int32_t *targets,
                                           int sequences, int length, float scale, double *loss);

/* The loss alone, summed over all positions. */
coll_status_t train_model_loss(train_model_t *model, const train_source_t *source,
                               const int32_t *tokens, const int32_t *targets, int sequences,
                               int length, double *loss);

/* Reads tokens[count] as positions first .. first + count - 1 of a single sequence, of which the
 * calls before have read positions 0 .. first - 1 with the same parameters; first + count <=
 * context. logits[vocabulary] get what follows the last token. Any other pass ends the sequence.
 * For a model that is forward_only or recomputes nothing: it keeps keys and values. */
coll_status_t train_model_extend(train_model_t *model, const train_source_t *source,
                                 const int32_t *tokens, int first, int count, float *logits);

#endif
