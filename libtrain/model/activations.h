/* The arrays of a forward and a backward pass. */
#ifndef LIBTRAIN_MODEL_ACTIVATIONS_H
#define LIBTRAIN_MODEL_ACTIVATIONS_H

#include "base/status.h"
#include "libtrain/model/layout.h"
#include "libtrain/model/model_options.h"

/* The activations that a block's forward pass stores for its backward pass. Activations that are
 * recomputed, or not needed again, share one buffer among all blocks. Void pointers have the
 * element type of activations, here and below. */
typedef struct block_activations {
  void *normed1;         /* [rows, width] */
  float *mean1, *rstd1;  /* [rows] */
  void *qkv;             /* [rows, 3 * width] */
  void *attended;        /* [rows, width] */
  float *log_sums;       /* [rows, heads] */
  void *mid_stream;      /* [rows, width]: the residual stream between attention and MLP */
  void *normed2;         /* [rows, width] */
  float *mean2, *rstd2;  /* [rows] */
  void *hidden, *active; /* [rows, 4 * width]: before and after the GELU */
  void *out;             /* [rows, width]: the residual stream after the block */
} block_activations_t;

typedef struct train_activations {
  train_batch_t batch;         /* of the latest forward pass */
  int32_t *tokens;             /* [rows]: its input */
  void *embedded;              /* [rows, width] */
  block_activations_t *blocks; /* [layers] */
  void *normed;                /* [rows, width]: the final layernorm's output */
  float *mean, *rstd;          /* [rows] */
  void *d_stream, *d_narrow;   /* [rows, width] */
  void *d_wide;                /* [rows, 4 * width] */
  float *scratch;              /* for the operators */
  void *arena;                 /* contains all arrays above except tokens */
} train_activations_t;

coll_status_t train_activations_create(const train_model_config_t *config,
                                       const train_model_options_t *options,
                                       train_activations_t **activations);
void train_activations_destroy(train_activations_t *activations);

/* Bytes of the arena. */
size_t train_activations_bytes(const train_model_config_t *config,
                               const train_model_options_t *options);

#endif
