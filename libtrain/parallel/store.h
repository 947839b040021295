/*
 * The parameters, gradients and moments of a model on the ranks that train it: ZeRO stages 0 to 3
 * (Rajbhandari et al. 2020), from everything everywhere to a share of everything on each. To the
 * passes it is a train_param_provider_t: gradients are reduced bucket by bucket on a host stream
 * while backward goes on, and at stage 3 a unit is gathered while the one before is computed with,
 * and forgotten after its use. What comes out does not depend on the stage, nor on what overlaps,
 * but for the order in which the ranks' floats are added.
 */
#ifndef LIBTRAIN_PARALLEL_STORE_H
#define LIBTRAIN_PARALLEL_STORE_H

#include "libtrain/files/flat.h"
#include "libtrain/model/layout.h"
#include "libtrain/model/optimizer.h"
#include "libtrain/model/param_provider.h"
#include "libtrain/parallel/wire.h"

#define TRAIN_STAGE_MOST 3
#define TRAIN_BUCKET_BYTES ((size_t)25 << 20)

typedef struct train_store_options {
  int stage; /* 0: nothing is shared out; 1: moments; 2: gradients too; 3: parameters too */
  size_t bucket_bytes; /* the most that one collective reduces or gathers */
  train_wire_options_t wire;
  train_pool_t *pool; /* steps the parameters; may be NULL. Outlives the store */
} train_store_options_t;

#define TRAIN_STORE_OPTIONS_INIT                                   \
  {                                                                \
    .bucket_bytes = TRAIN_BUCKET_BYTES, .wire = {.overlap = true } \
  }

typedef struct train_store train_store_t;

/* A store with everything zero, allocated at once. Layout and team must outlive it. Not a
 * collective, but the ranks' options have to be the same. COLL_ERROR_INVALID, COLL_ERROR_MEMORY. */
coll_status_t train_store_create(const train_layout_t *layout, const train_team_t *team,
                                 const train_store_options_t *options, train_store_t **store);

/* Waits for what is under way. After a failure among ranks that are threads of one process, all of
 * them have to come to their end before the first store is destroyed. */
void train_store_destroy(train_store_t *store);

/* ---- what is in it -------------------------------------------------------------------------- */

/* Takes parameters and moments from `from`: every rank reads what it keeps. Not a collective. */
coll_status_t train_store_load(train_store_t *store, const train_flat_t *from);

/* Takes a new model's parameters (train_layout_initialize), and moments of zero. */
coll_status_t train_store_initialize(train_store_t *store, uint64_t seed);

/* The store as a flat space, for files. Every read is a collective: all ranks make the same reads
 * in the same order, between steps. */
train_flat_t train_store_flat(train_store_t *store);

/* ---- a step: begin, one forward and backward pass per micro-batch, finish, update ----------- */

/* The source of the passes. Every rank makes the same passes in the same order, also those that
 * only measure: at stage 3 each acquisition is a collective. */
train_param_provider_t train_store_provider(train_store_t *store);

/* Starts a cycle of accumulation over that many micro-batches. */
void train_store_begin(train_store_t *store, int micro_batches);

/* Waits until all gradients are reduced. *squares: this rank's part of the squared global norm of
 * the gradients, which is the sum over ranks. */
coll_status_t train_store_finish(train_store_t *store, double *squares);

/* AdamW's step-th step on what each rank owns, with gradients scaled as they are read, after which
 * every rank has the parameters that it is to have. */
coll_status_t train_store_update(train_store_t *store, const train_adamw_t *adamw,
                                 float gradient_scale, float rate, uint64_t step);

/* ---- what it takes -------------------------------------------------------------------------- */

typedef struct train_traffic {
  uint64_t bytes_sent; /* as the paper counts: see memory.h */
  uint64_t waited_ns;  /* in which the calling thread waited for communication */
} train_traffic_t;

/* Since the latest train_store_begin. */
train_traffic_t train_store_traffic(const train_store_t *store);

/* Whether communication overlaps from now on, instead of what the options say; between steps.
 * Results are the same. */
void train_store_set_overlap(train_store_t *store, bool overlap);

const train_store_options_t *train_store_options(const train_store_t *store);
const train_layout_t *train_store_layout(const train_store_t *store);

/* Of what the ranks' stores must have in common: sizes of the model and options. */
uint64_t train_store_digest(const train_store_t *store);

/* Bytes that train_store_create allocated, without its bookkeeping. */
size_t train_store_bytes(const train_store_t *store);

#endif
