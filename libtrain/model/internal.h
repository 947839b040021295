/* What model.c and pass.c share: the arrays of a forward and a backward pass. */
#ifndef LIBTRAIN_MODEL_INTERNAL_H
#define LIBTRAIN_MODEL_INTERNAL_H

#include "libtrain/model/model.h"

/* What a block's forward pass leaves for its backward pass; [rows, ...] unless said otherwise. */
typedef struct block_activations {
  float *normed1, *mean1, *rstd1; /* [rows, width], [rows], [rows] */
  float *qkv;                     /* [rows, 3 * width] */
  float *weights;                 /* [sequences, heads, context, context] */
  float *attended;                /* [rows, width] */
  float *middle;                  /* [rows, width]: the stream between attention and MLP */
  float *normed2, *mean2, *rstd2;
  float *hidden, *active; /* [rows, 4 * width]: before and after the GELU */
  float *out;             /* [rows, width]: the stream after the block */
} block_activations_t;

typedef struct train_activations {
  int rows, sequences, length; /* of the latest forward pass */
  int32_t *tokens;             /* [rows]: its input */
  float *embedded;             /* [rows, width] */
  block_activations_t *blocks; /* [layers] */
  float *normed, *mean, *rstd; /* the final layernorm */
  float *logits, *losses;      /* [rows, vocabulary], [rows] */
  float *projected;            /* [rows, width]: what a block adds to the stream */
  float *d_stream, *d_narrow;  /* [rows, width] */
  float *d_wide;               /* [rows, 4 * width] */
  float *scratch;              /* [context, context] */
  float *arena;                /* all of the float arrays above */
} train_activations_t;

coll_status_t train_activations_create(const train_model_config_t *config, int sequences,
                                       train_activations_t **activations);
void train_activations_destroy(train_activations_t *activations);

#endif
