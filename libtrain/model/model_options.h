/*
 * Options of a model that determine which activations it stores and what executes its operators.
 */
#ifndef LIBTRAIN_MODEL_MODEL_OPTIONS_H
#define LIBTRAIN_MODEL_MODEL_OPTIONS_H

#include "libtrain/common/precision.h"
#include "libtrain/ops/ops.h"

/* Activation recomputation (Chen et al. 2016): which activations of each block the forward pass
 * stores, and which ones the backward pass recomputes. Results are bit-identical. With width C the
 * elements stored per position and block are 16 C, 11 C and C. The latter two need up to 16 C more
 * for one block, shared by all. */
typedef enum train_recompute {
  TRAIN_RECOMPUTE_NONE,
  TRAIN_RECOMPUTE_ATTENTION, /* recomputes the first layernorm, queries, keys, values, and
                              * attention */
  TRAIN_RECOMPUTE_BLOCK      /* recomputes everything; stores only the block's input */
} train_recompute_t;

typedef struct train_model_options {
  int sequences; /* maximum of a pass, each of the full context */
  train_recompute_t recompute;
  train_precision_t precision;
  bool forward_only;      /* for evaluation and sampling: stores only keys and values */
  train_pool_t *pool;     /* executes the operators; may be NULL; must outlive the model */
  const train_ops_t *ops; /* NULL: train_ops_host */
} train_model_options_t;

#endif
