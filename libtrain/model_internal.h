/* What model.c and model_pass.c share: where tensors stand in the list, and the activations. */
#ifndef LIBTRAIN_MODEL_INTERNAL_H
#define LIBTRAIN_MODEL_INTERNAL_H

#include "libtrain/model.h"

/* The list of tensors: two tables, BLOCK_TENSORS of each layer, the final layernorm. */
enum { TOKEN_TABLE, POSITION_TABLE, FIRST_BLOCK };
enum { FINAL_WEIGHT, FINAL_BIAS, FINAL_TENSORS, GLOBAL_TENSORS = FIRST_BLOCK + FINAL_TENSORS };

typedef enum block_tensor {
  NORM1_WEIGHT,
  NORM1_BIAS,
  QKV_WEIGHT,
  QKV_BIAS,
  ATTENTION_WEIGHT,
  ATTENTION_BIAS,
  NORM2_WEIGHT,
  NORM2_BIAS,
  HIDDEN_WEIGHT,
  HIDDEN_BIAS,
  MLP_WEIGHT,
  MLP_BIAS,
  BLOCK_TENSORS
} block_tensor_t;

static inline int block_tensor_index(int layer, block_tensor_t which) {
  return FIRST_BLOCK + layer * BLOCK_TENSORS + (int)which;
}

static inline int final_tensor_index(const train_model_t *model, int which) {
  return FIRST_BLOCK + model->config.layers * BLOCK_TENSORS + which;
}

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
