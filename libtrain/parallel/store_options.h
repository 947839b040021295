/*
 * Options of a parameter store: the ZeRO stage, the bucket size and the options of communication.
 */
#ifndef LIBTRAIN_PARALLEL_STORE_OPTIONS_H
#define LIBTRAIN_PARALLEL_STORE_OPTIONS_H

#include "libtrain/common/pool.h"
#include "libtrain/common/precision.h"
#include "libtrain/parallel/comm_queue.h"

#define TRAIN_STAGE_MAX 3
#define TRAIN_BUCKET_BYTES ((size_t)25 << 20)

typedef struct train_store_options {
  int stage;  /* ZeRO stage; partitioned: 0: nothing; 1: moments; 2: also gradients; 3: also
               * parameters */
  bool naive; /* naive data parallelism, at stage 0: gradients are summed on rank 0, which alone has
               * moments and updates, and broadcasts the weights */
  size_t bucket_bytes; /* maximum of one collective */
  train_precision_t precision;
  train_comm_options_t comm;
  train_pool_t *pool;           /* for the optimizer; may be NULL; must outlive the store */
  const train_group_t *experts; /* the ranks that hold the same experts: some of the store's group,
                                 * and of those of other tensor ranks where experts are not cut;
                                 * NULL: the store's group; must outlive the store */
} train_store_options_t;

#define TRAIN_STORE_OPTIONS_INIT                                   \
  {                                                                \
    .bucket_bytes = TRAIN_BUCKET_BYTES, .comm = {.overlap = true } \
  }

#endif
