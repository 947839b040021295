/*
 * The operators of a GPT-2, forward and backward, as a table of functions that each backend
 * implements; the host's table is declared here. Element-wise operations that follow a matrix
 * product are fused into it.
 *
 * All arrays are row-major and owned by the caller; `rows` counts positions. Activations, their
 * gradients and parameters have the element type of train_exec_t (void pointers); statistics and
 * gradients of parameters are float32. Operators compute in float32 and round once when they store.
 * Outputs named `out` or `d_in` are overwritten. `d_stream`, the gradient of the residual stream,
 * is added to, which implements the backward pass of residual connections. Gradients of parameters
 * (`d_weight`, `d_bias`, `d_table`) are overwritten if `overwrite`, else added to.
 *
 * Results are bit-identical for any number of threads: work is divided by shape only, and partial
 * sums are added in a fixed order. Results do depend on the processor, through its vector width and
 * OpenBLAS's kernels.
 */
#ifndef LIBTRAIN_OPS_OPS_H
#define LIBTRAIN_OPS_OPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "libtrain/common/dtype.h"
#include "libtrain/gemm/gemm.h"

/* The tokens of a pass: row r is position first + r % length of sequence r / length. `first` is 0
 * unless a single sequence is extended, whose earlier positions were computed by previous calls. */
typedef struct train_batch {
  int sequences, length, first;
} train_batch_t;

static inline int train_batch_rows(const train_batch_t *batch) {
  return batch->sequences * batch->length;
}

/* Tensor parallelism: how a layer's weight is partitioned among ranks: not at all, by output or by
 * input features. */
typedef enum train_tensor_split {
  TRAIN_TENSOR_SPLIT_NONE,
  TRAIN_TENSOR_SPLIT_COLUMN,
  TRAIN_TENSOR_SPLIT_ROW
} train_tensor_split_t;

/* A linear layer, out = in * weight^T + bias, with weight[out_width, in_width]. Only
 * TRAIN_TENSOR_SPLIT_NONE is implemented, which the operators assert. */
typedef struct train_linear {
  int in_width, out_width;
  train_tensor_split_t split;
} train_linear_t;

/* The largest sizes that a model uses. */
typedef struct train_ops_sizes {
  int rows, length, heads, width, vocabulary, threads;
  train_dtype_t dtype;
  bool training; /* includes backward passes */
} train_ops_sizes_t;

/* What executes operators. */
typedef struct train_exec {
  train_pool_t *pool; /* may be NULL */
  train_gemm_t *gemm; /* on the same pool */
  train_dtype_t dtype;
  float *scratch; /* at least scratch_floats of the table; used by one operator at a time */
} train_exec_t;

typedef struct train_ops {
  const char *name;

  size_t (*scratch_floats)(const train_ops_sizes_t *sizes);

  /* out[row] = token_table[token of row] + position_table[position of row], of `width`. The
   * backward pass adds to the tables' gradients; it overwrites that of the position table
   * ([context, width]) if `overwrite`. */
  void (*embedding_forward)(const train_exec_t *exec, const train_batch_t *batch,
                            const int32_t *tokens, const void *token_table,
                            const void *position_table, int width, void *out);
  void (*embedding_backward)(const train_exec_t *exec, const train_batch_t *batch,
                             const int32_t *tokens, const void *d_out, int width, int context,
                             bool overwrite, float *d_token_table, float *d_position_table);

  /* out = (in - mean) * rstd * weight + bias over each row of `width` (Ba, Kiros and Hinton 2016,
   * epsilon 1e-5). mean and rstd (1 / standard deviation), one per row, are stored for backward. */
  void (*layernorm_forward)(const train_exec_t *exec, const void *in, const void *weight,
                            const void *bias, int rows, int width, void *out, float *mean,
                            float *rstd);
  /* Adds to d_stream, or overwrites it if `first`. */
  void (*layernorm_backward)(const train_exec_t *exec, const void *d_out, const void *in,
                             const void *weight, const float *mean, const float *rstd, int rows,
                             int width, bool first, bool overwrite, void *d_stream, float *d_weight,
                             float *d_bias);

  /* out = in * weight^T, + bias and + residual[rows, out_width] if they are not NULL. If `active`
   * is not NULL it receives GELU(out) (tanh form, Hendrycks and Gimpel 2016). */
  void (*linear_forward)(const train_exec_t *exec, const train_linear_t *linear, const void *in,
                         int rows, const void *weight, const void *bias, const void *residual,
                         void *out, void *active);
  /* If `hidden`[rows, in_width] is not NULL, `in` is GELU(hidden) and d_in is the gradient of
   * `hidden`. */
  void (*linear_backward)(const train_exec_t *exec, const train_linear_t *linear, const void *d_out,
                          const void *in, int rows, const void *weight, const void *hidden,
                          bool overwrite, void *d_in, float *d_weight, float *d_bias);

  /* Causal multi-head attention (Vaswani et al. 2017), computed in tiles with an online softmax, so
   * that the full attention matrix is never stored (Dao et al. 2022). qkv[., 3 * width] has
   * queries, keys and values side by side, from position 0 on; each head uses width / heads columns
   * of each. out[rows, width]; log_sums[rows, heads] are the logarithms of the softmax sums, stored
   * for backward. */
  void (*attention_forward)(const train_exec_t *exec, const train_batch_t *batch, const void *qkv,
                            int heads, int width, void *out, float *log_sums);
  void (*attention_backward)(const train_exec_t *exec, const train_batch_t *batch,
                             const void *d_out, const void *qkv, const void *out,
                             const float *log_sums, int heads, int width, void *d_qkv);

  /* The tied classifier fused with softmax cross-entropy: logits = in * table^T, computed for some
   * rows at a time, so that the logits of all rows never exist together. Returns the loss in nats,
   * summed over rows. d_in and d_table, unless both are NULL, receive the gradients of scale *
   * loss. */
  double (*classifier)(const train_exec_t *exec, const void *in, const void *table,
                       const int32_t *targets, int rows, int width, int classes, float scale,
                       bool overwrite, void *d_in, float *d_table);
} train_ops_t;

/* The host backend: vectorized loops, and matrix products of several libraries, on a thread pool.
 */
extern const train_ops_t train_ops_host;

#endif
