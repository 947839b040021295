/*
 * What training takes per rank, worked out before anything is allocated: bytes held, as the ZeRO
 * paper (Rajbhandari et al. 2020) counts them, and bytes sent. With parameters P, everything in
 * float32, and N ranks, a rank holds and sends
 *
 *     stage   parameters   gradients   moments     sent per step, with A micro-batches
 *     0       4 P          4 P         8 P         8 P             all-reduce
 *     1       4 P          4 P         8 P / N     8 P             reduce-scatter, all-gather
 *     2       4 P          4 P / N     8 P / N     4 P (A + 1)     reduce-scatter in each
 *     3       4 P / N      4 P / N     8 P / N     12 P A          and two all-gathers in each
 *
 * besides the workspaces, in which units are computed with: at stage 2 the gradients of the ends
 * and of two blocks, at stage 3 the parameters of two neighbours as well.
 */
#ifndef LIBTRAIN_PARALLEL_MEMORY_H
#define LIBTRAIN_PARALLEL_MEMORY_H

#include <stddef.h>
#include <stdint.h>

#include "libtrain/model/model.h"
#include "libtrain/parallel/shards.h"
#include "libtrain/parallel/store.h"

/* In bytes. */
typedef struct train_memory {
  size_t parameters, gradients, moments;
  size_t workspaces;  /* of the store */
  size_t activations; /* of the model */
} train_memory_t;

/* What a rank holds when a model of that layout is trained so: to the byte what the store and the
 * model allocate, but for bookkeeping of a few KiB. COLL_ERROR_INVALID: buckets too small. */
coll_status_t train_memory_predict(const train_layout_t *layout,
                                   const train_model_options_t *model_options,
                                   const train_store_options_t *store_options, int ranks,
                                   train_memory_t *memory);

/* What a rank sends in a step, after the table above; 0 for a rank alone. Numbers that travel as
 * bfloat16 count half: all but the parameters of stages 1 and 2. */
uint64_t train_traffic_predict(const train_layout_t *layout, const train_store_options_t *options,
                               int ranks, int micro_batches);

/* ---- for the store -------------------------------------------------------------------------- */

/* The workspaces, in elements. Gradients of unit 0 stay open beside those of two blocks, one that
 * is computed and one that is reduced. Parameters of two neighbours, one that is used and one that
 * is fetched, lie at the two ends of one array, so that each next unit takes the end that the unit
 * before has left. */
typedef struct train_workspaces {
  size_t open;       /* of all gradients; 0 before stage 2 */
  size_t open_at[3]; /* where those of unit 0, odd and even units lie */
  size_t gathered;   /* 0 before stage 3 */
} train_workspaces_t;

train_workspaces_t train_workspaces_of(const train_shards_t *shards, int stage);

/* How many ways the model is shared out at that stage. */
static inline int train_stage_owners(int stage, int ranks) {
  return stage == 0 ? 1 : ranks;
}

/* All but the activations. */
train_memory_t train_memory_of(const train_shards_t *shards, int stage);

#endif
