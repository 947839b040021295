/*
 * The operators of a GPT-2, each forward and backward, as a table of functions, so that a model
 * runs on any backend that has them; the host's is here. What comes between two matrix products
 * is fused into them where it goes element by element.
 *
 * All arrays are row-major float32 owned by the caller; `rows` counts positions. Names say what
 * happens to an output: an `out` or `d_in` is overwritten; `d_stream` is the gradient of the
 * residual stream and is added to, which is all that the backward pass of a residual connection is;
 * gradients of parameters (`d_weight`, `d_bias`, `d_table`) are overwritten when `fresh`, else
 * added to. `scratch` is at least what the table's scratch_floats says, used by one operator at a
 * time.
 *
 * Results do not depend on the number of threads, bit for bit: work is cut by its shape alone, and
 * whatever is summed over parts is summed in the order of the parts. They do depend on the
 * processor, by the width of its vectors and by OpenBLAS's kernels for it.
 */
#ifndef LIBTRAIN_OPS_OPS_H
#define LIBTRAIN_OPS_OPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "libtrain/ops/pool.h"

/* Which tokens a pass sees: row r is position first + r % length of sequence r / length. `first` is
 * 0 but where a single sequence is extended, whose earlier positions have been seen before. */
typedef struct train_batch {
  int sequences, length, first;
} train_batch_t;

static inline int train_batch_rows(const train_batch_t *batch) {
  return batch->sequences * batch->length;
}

/* How a layer's weight is shared out among ranks: not at all, by output or by input features. */
typedef enum train_tensor_split {
  TRAIN_TENSOR_SPLIT_NONE,
  TRAIN_TENSOR_SPLIT_COLUMN,
  TRAIN_TENSOR_SPLIT_ROW
} train_tensor_split_t;

/* A linear layer, out = in * weight^T + bias, with weight[out_width, in_width]. So far every layer
 * is TRAIN_TENSOR_SPLIT_NONE, which the operators assert. */
typedef struct train_linear {
  int in_width, out_width;
  train_tensor_split_t split;
} train_linear_t;

/* The largest sizes that a model will ask for. */
typedef struct train_ops_sizes {
  int rows, length, heads, width, vocabulary, threads;
  bool training; /* backward passes too */
} train_ops_sizes_t;

typedef struct train_ops {
  const char *name;

  size_t (*scratch_floats)(const train_ops_sizes_t *sizes);

  /* out[row] = token_table[token of row] + position_table[position of row], of `width`. The tables'
   * gradients are added to, that of the positions ([context, width]) overwritten when `fresh`. */
  void (*embedding_forward)(train_pool_t *pool, const train_batch_t *batch, const int32_t *tokens,
                            const float *token_table, const float *position_table, int width,
                            float *out);
  void (*embedding_backward)(train_pool_t *pool, const train_batch_t *batch, const int32_t *tokens,
                             const float *d_out, int width, int context, bool fresh,
                             float *d_token_table, float *d_position_table);

  /* out = (in - mean) * rstd * weight + bias over each row of `width` (Ba, Kiros and Hinton 2016,
   * epsilon 1e-5). mean and rstd (1/standard deviation), one per row, are kept for backward. */
  void (*layernorm_forward)(train_pool_t *pool, const float *in, const float *weight,
                            const float *bias, int rows, int width, float *out, float *mean,
                            float *rstd);
  /* Adds to d_stream, or with `first` overwrites it. */
  void (*layernorm_backward)(train_pool_t *pool, const float *d_out, const float *in,
                             const float *weight, const float *mean, const float *rstd, int rows,
                             int width, bool first, bool fresh, float *scratch, float *d_stream,
                             float *d_weight, float *d_bias);

  /* out = in * weight^T, + bias and + residual[rows, out_width] where they are not NULL. With
   * `active` not NULL, that is GELU(out) (its tanh form, Hendrycks and Gimpel 2016). */
  void (*linear_forward)(train_pool_t *pool, const train_linear_t *linear, const float *in,
                         int rows, const float *weight, const float *bias, const float *residual,
                         float *out, float *active);
  /* With `hidden`[rows, in_width] not NULL, `in` is GELU(hidden) and d_in that of `hidden`. */
  void (*linear_backward)(train_pool_t *pool, const train_linear_t *linear, const float *d_out,
                          const float *in, int rows, const float *weight, const float *hidden,
                          bool fresh, float *d_in, float *d_weight, float *d_bias);

  /* Causal multi-head attention (Vaswani et al. 2017), tile by tile with a running softmax, so that
   * no matrix of all positions by all positions is kept (Dao et al. 2022). qkv[., 3 * width] holds
   * queries, keys and values side by side, from position 0 on; a head is width / heads columns of
   * each. out[rows, width]; log_sums[rows, heads] are the logarithms of the softmax's sums, kept
   * for backward. */
  void (*attention_forward)(train_pool_t *pool, const train_batch_t *batch, const float *qkv,
                            int heads, int width, float *scratch, float *out, float *log_sums);
  void (*attention_backward)(train_pool_t *pool, const train_batch_t *batch, const float *d_out,
                             const float *qkv, const float *out, const float *log_sums, int heads,
                             int width, float *scratch, float *d_qkv);

  /* The tied classifier and softmax cross-entropy in one: logits = in * table^T, some rows at a
   * time, so that those of all rows never exist together. Returns the loss in nats, summed over
   * rows; d_in and d_table (unless both are NULL) are the gradients of scale times it. */
  double (*classifier)(train_pool_t *pool, const float *in, const float *table,
                       const int32_t *targets, int rows, int width, int classes, float scale,
                       bool fresh, float *scratch, float *d_in, float *d_table);
} train_ops_t;

/* The host's: vector loops and OpenBLAS on a pool of threads. */
extern const train_ops_t train_ops_host;

#endif
