/*
 * Mixed-precision training (Micikevicius et al. 2018): in which element type each kind of tensor is
 * stored. Products have operands of the type of weights and activations and sum in float32;
 * everything else is computed in float32 and rounded once when it is stored.
 */
#ifndef LIBTRAIN_COMMON_PRECISION_H
#define LIBTRAIN_COMMON_PRECISION_H

#include <stdbool.h>

#include "libtrain/common/dtype.h"

typedef enum train_precision {
  TRAIN_PRECISION_FLOAT32,
  TRAIN_PRECISION_BF16,
  TRAIN_PRECISION_FP16,
  TRAIN_PRECISION_BF16_PURE,
  TRAIN_PRECISIONS /* their number */
} train_precision_t;

/* Kinds of tensors. */
typedef enum train_kind {
  TRAIN_KIND_PARAMETERS,  /* what the optimizer updates and checkpoints contain */
  TRAIN_KIND_WEIGHTS,     /* what the passes read and ranks gather; the parameters themselves if
                           * both have the same type, else a rounded copy of them */
  TRAIN_KIND_ACTIVATIONS, /* also the gradients of activations */
  TRAIN_KIND_GRADIENTS,   /* of parameters, summed over micro-batches */
  TRAIN_KIND_MOMENTS,     /* of AdamW */
  TRAIN_KIND_STATISTICS,  /* means and deviations of layernorms, sums of softmaxes, losses, norms */
  TRAIN_KINDS             /* their number */
} train_kind_t;

typedef struct train_policy {
  const char *name;  /* "bf16", the value of --precision */
  const char *about; /* one line for users */
  train_dtype_t stored[TRAIN_KINDS];
  bool loss_scaling;        /* gradients are scaled to fit the type's range */
  bool stochastic_rounding; /* parameters are rounded up or down at random, with the probabilities
                             * that keep their mean (Gupta et al. 2015) */
} train_policy_t;

const train_policy_t *train_policy_of(train_precision_t precision);

static inline train_dtype_t train_precision_stored(train_precision_t precision, train_kind_t kind) {
  return train_policy_of(precision)->stored[kind];
}

/* Whether the weights are a rounded copy of the parameters. */
static inline bool train_precision_copies_weights(train_precision_t precision) {
  const train_policy_t *policy = train_policy_of(precision);
  return policy->stored[TRAIN_KIND_WEIGHTS] != policy->stored[TRAIN_KIND_PARAMETERS];
}

/* "float32", "bf16" ..., terminated by NULL: the names in order of train_precision_t. */
extern const char *const train_precision_names[];

/* "parameters", "weights" ... */
const char *train_kind_name(train_kind_t kind);

#endif
