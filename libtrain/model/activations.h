/* The arrays of a forward and a backward pass. */
#ifndef LIBTRAIN_MODEL_ACTIVATIONS_H
#define LIBTRAIN_MODEL_ACTIVATIONS_H

#include "base/status.h"
#include "libtrain/model/layout.h"
#include "libtrain/model/model_options.h"

/* The activations that a block's forward pass stores for its backward pass. Activations that are
 * recomputed, or not needed again, share one buffer among all blocks. */
typedef struct block_activations {
  float *normed1, *mean1, *rstd1; /* [rows, width], [rows], [rows] */
  float *qkv;                     /* [rows, 3 * width] */
  float *attended, *log_sums;     /* [rows, width], [rows, heads] */
  float *mid_stream;              /* [rows, width]: the residual stream between attention and MLP */
  float *normed2, *mean2, *rstd2; /* [rows, width], [rows], [rows] */
  float *hidden, *active;         /* [rows, 4 * width]: before and after the GELU */
  float *out;                     /* [rows, width]: the residual stream after the block */
} block_activations_t;

typedef struct train_activations {
  train_batch_t batch;         /* of the latest forward pass */
  int32_t *tokens;             /* [rows]: its input */
  float *embedded;             /* [rows, width] */
  block_activations_t *blocks; /* [layers] */
  float *normed, *mean, *rstd; /* the final layernorm */
  float *d_stream, *d_narrow;  /* [rows, width] */
  float *d_wide;               /* [rows, 4 * width] */
  float *scratch;              /* for the operators */
  void *arena;                 /* contains all float arrays above */
} train_activations_t;

coll_status_t train_activations_create(const train_model_config_t *config,
                                       const train_model_options_t *options,
                                       train_activations_t **activations);
void train_activations_destroy(train_activations_t *activations);

/* Bytes of all float arrays. */
size_t train_activations_bytes(const train_model_config_t *config,
                               const train_model_options_t *options);

#endif
