/*
 * Memory and traffic of training per rank, computed before anything is allocated, as in the ZeRO
 * paper (Rajbhandari et al. 2020). With M parameters in a rank's part of the model, N data and
 * context ranks, which hold the same part, p and w bytes per parameter and per weight
 * (common/precision.h), and no copy of the weights, w = p:
 *
 *     stage   parameters   gradients   moments     sent per step, with A micro-batches
 *     0       p M          4 M         8 M         8 M              all-reduce
 *     1       p M          4 M         8 M / N     (4 + w) M        reduce-scatter, all-gather
 *     2       p M          4 M / N     8 M / N     (4 A + w) M      reduce-scatter in each
 *     3       p M / N      4 M / N     8 M / N     (4 + 2 w) A M    and two all-gathers in each
 *
 * p is 4 in float32 and 2 in bf16-pure. In bf16 and fp16, p is 4 and the weights are a copy with
 * w = 2, which needs more memory, but at stages 1 and 2 less than the parameters of float32 do:
 *
 *     stage   parameters   weights
 *     0       4 M          2 M
 *     1, 2    4 M / N      2 M
 *     3       4 M / N      2 M / N
 *
 * Naive data parallelism (store_options.h) has rank 0 do what stage 0 does on all:
 *
 *     rank    parameters   gradients   moments     sent per step
 *     0       p M          4 M         8 M         (4 + w) M        reduce, broadcast
 *     others  p M          4 M         0           the same
 *
 * where in bf16 and fp16 the others have no parameters (p = 0), only the 2 M of the weights.
 *
 * As in the paper, N / (N - 1) of what a rank sends is counted. Of N ranks that pass on what is
 * reduced or broadcast, one sends nothing, and the others all of it.
 *
 * A rank also needs workspaces: at stages 2 and 3 for the gradients of the root unit and of two
 * blocks, at stage 3 also for the weights of two consecutive units.
 */
#ifndef LIBTRAIN_PARALLEL_MEMORY_H
#define LIBTRAIN_PARALLEL_MEMORY_H

#include <stddef.h>
#include <stdint.h>

#include "libtrain/model/layout.h"
#include "libtrain/model/model_options.h"
#include "libtrain/parallel/partition.h"
#include "libtrain/parallel/store_options.h"

/* In bytes. */
typedef struct train_memory {
  size_t parameters, gradients, moments;
  size_t weights;     /* 0 if they are the parameters themselves */
  size_t workspaces;  /* of the parameter store */
  size_t activations; /* of the model */
} train_memory_t;

/* Predicts the memory of a rank: exactly what the store and the model allocate, except for a few
 * KiB of bookkeeping. In naive data parallelism it is that of rank 0, which needs the most.
 * COLL_ERROR_INVALID: the buckets are too small. */
coll_status_t train_memory_predict(const train_layout_t *layout,
                                   const train_model_options_t *model_options,
                                   const train_store_options_t *store_options, int ranks,
                                   train_memory_t *memory);

/* The same without the model's activations, which are set to 0. The layout may be that of a part;
 * `ranks` hold it alike. */
coll_status_t train_memory_predict_store(const train_layout_t *layout,
                                         const train_store_options_t *options, int ranks,
                                         train_memory_t *memory);

/* Of the memory of rank 0, as predicted with these options, what a rank of the same part has: all,
 * but in naive data parallelism only rank 0 has what updates need. */
train_memory_t train_memory_on_rank(const train_store_options_t *options, int rank,
                                    const train_memory_t *of_rank_0);

/* Bytes that AdamW reads and writes for an element: its gradient, the parameter and both moments
 * twice, and the rounded copy of the parameter if there is one. */
size_t train_update_bytes(train_precision_t precision);

/* Predicts the bytes that a rank sends per step, by the table above; 0 for a single rank. With
 * comm.bfloat16 gradients count half, and the float32 weights of stage 3. */
uint64_t train_traffic_predict(const train_layout_t *layout, const train_store_options_t *options,
                               int ranks, int micro_batches);

/* ---- used by the store ---------------------------------------------------------------------- */

/* Workspace sizes in elements. The gradient workspace has room for unit 0 and two blocks with their
 * experts, one being computed and one being reduced. The weight workspace holds two consecutive
 * units, one in use and one being prefetched, at opposite ends: each next unit is gathered at the
 * end that the unit before has freed. */
typedef struct train_workspaces {
  size_t gradients;           /* size of the gradient workspace; 0 below stage 2 */
  size_t gradient_offsets[5]; /* of unit 0, odd and even blocks, experts in odd and even units */
  size_t weights;             /* size of the weight workspace; 0 below stage 3 */
} train_workspaces_t;

train_workspaces_t train_workspaces_of(const train_partition_t *partition, int stage);

/* The index in gradient_offsets of a unit. */
static inline int train_workspace_slot(const train_partition_t *partition, int unit) {
  return unit == 0 ? 0 : (partition->units[unit].experts ? 4 : 2) - unit % 2;
}

/* Everything except the activations. */
train_memory_t train_memory_of(const train_partition_t *partition, int stage,
                               train_precision_t precision);

#endif
