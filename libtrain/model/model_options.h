/*
 * Options of a model that determine which part of it a pass computes, with which ranks, which
 * activations it stores and what executes its operators.
 */
#ifndef LIBTRAIN_MODEL_MODEL_OPTIONS_H
#define LIBTRAIN_MODEL_MODEL_OPTIONS_H

#include "libtrain/common/precision.h"
#include "libtrain/model/slices.h"
#include "libtrain/ops/router.h"

/* Activation recomputation (Chen et al. 2016): which activations of each block the forward pass
 * stores, and which ones the backward pass recomputes. Results are bit-identical. With width C the
 * elements stored per position and block are 16 C, 11 C and C, and with Ulysses 17 C, 11 C and C.
 * The latter two need up to 16 C more for one block, shared by all. With slices they store 3 C
 * more, keys and values, which later slices need. */
typedef enum train_recompute {
  TRAIN_RECOMPUTE_NONE,
  TRAIN_RECOMPUTE_ATTENTION, /* recomputes the first layernorm, queries, keys, values, and
                              * attention */
  TRAIN_RECOMPUTE_BLOCK      /* recomputes everything; stores only the block's input */
} train_recompute_t;

/* How a sequence that is cut over the context ranks attends to all of it. */
typedef enum train_context_kind {
  TRAIN_CONTEXT_RING,   /* keys and values travel around a ring (Liu et al. 2023); rank r has the
                         * segments r and 2 p - 1 - r of 2 p, so that causal ranks work alike */
  TRAIN_CONTEXT_ULYSSES /* an all-to-all gives each rank whole sequences of some heads (Jacobs et
                         * al. 2023) */
} train_context_kind_t;

/* How far collectives of the tensor axis overlap with matrix products. 0: not at all. From 1 on the
 * sum of a layer's input gradients overlaps with the product of its weight gradients, which changes
 * no bits (Narayanan et al. 2021). From 2 on forward passes also
 * work in that many chunks of rows: the collective of one overlaps with the product of the next
 * (Wang et al. 2023). Sums then have the bits of that number of chunks. */
#define TRAIN_TENSOR_CHUNKS_MAX 64

/* The axes over which the passes of a model communicate. NULL: not cut. The axes belong to the
 * caller and must outlive the model. */
typedef struct train_model_axes {
  struct train_axis *tensor; /* as many ranks as the layout's part has tensor ranks */
  int tensor_overlap;        /* 0 to TRAIN_TENSOR_CHUNKS_MAX, as above; equal on all tensor ranks */
  bool sequence_parallel;    /* rows of the residual stream and layernorms are cut over the tensor
                              * axis, too (Korthikanti et al. 2022); it must divide the rows */
  struct train_axis *context; /* sequences are cut over it; it must divide the context, twice for a
                               * ring, and with Ulysses the heads of a tensor rank */
  train_context_kind_t context_kind;
  struct train_axis *experts; /* as many ranks as the layout's part has expert ranks */
} train_model_axes_t;

/* Mixtures of experts (ops/router.h). */
typedef struct train_experts_options {
  double capacity_factor; /* 0: nothing is dropped, nor by a forward_only model */
  float balance, z;       /* factors of the balance loss (Fedus et al. 2021: 0.01) and of the z loss
                           * (Zoph et al. 2022: 0.001), which the gradients include: per block the
                           * means over sequences and positions */
  const train_router_replay_t *replay; /* NULL: routers choose by themselves; must outlive the
                                        * model, of which it gets the numbers of layers */
} train_experts_options_t;

typedef struct train_model_options {
  int sequences; /* maximum of a pass, each of the full context */
  int slots;     /* micro-batches in flight: their forward passes are done and their backward
                  * passes are not; 0: one */
  train_slices_t slices; /* passes compute these; without context ranks, experts and split_backward,
                          * and not forward_only */
  int chunk;             /* of the layout's part: the layers that the passes compute */
  train_model_axes_t axes;
  train_experts_options_t experts;
  train_recompute_t recompute; /* none with split_backward */
  bool split_backward; /* backward passes come in two parts (model.h), neither of which needs
                        * activations that the other has to recompute */
  train_precision_t precision;
  bool forward_only;      /* for evaluation and sampling: stores only keys and values */
  train_pool_t *pool;     /* executes the operators; may be NULL; must outlive the model */
  const train_ops_t *ops; /* NULL: train_ops_host */
} train_model_options_t;

#endif
