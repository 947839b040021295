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

/* The tokens of a pass: `length` rows of each sequence, from position `first` on. The second half
 * of a sequence's rows is `gap` positions later than it would be without a gap: with context
 * parallelism a rank has two segments of equal length of each sequence. `first` and `gap` are
 * otherwise 0, unless a single sequence is extended, whose earlier positions were computed by
 * previous calls. */
typedef struct train_batch {
  int sequences, length, first, gap;
} train_batch_t;

static inline int train_batch_rows(const train_batch_t *batch) {
  return batch->sequences * batch->length;
}

/* The position of a row in its sequence. */
static inline int train_batch_position(const train_batch_t *batch, int row) {
  int index = row % batch->length;
  return batch->first + index + (2 * index >= batch->length ? batch->gap : 0);
}

/* The tokens whose rows a token table has: first .. first + count - 1. Tokens and targets are
 * numbered as in the whole vocabulary. `count` may be 0. */
typedef struct train_vocabulary {
  int first, count;
} train_vocabulary_t;

/* How the parts of a vocabulary that is cut exchange statistics. Every part calls it alike. */
typedef struct train_parts {
  int count;
  /* all[count, floats] = own[floats] of every part, in the order of the parts. */
  void (*allgather)(void *context, const float *own, float *all, size_t floats);
  void *context;
} train_parts_t;

/* A linear layer, out = in * weight^T + bias, with weight[out_width, in_width]. A layer that is cut
 * by output features (column-parallel) is a layer with fewer of them; one that is cut by input
 * features (row-parallel) is a layer without bias whose outputs are to be summed over the parts,
 * followed by bias_residual (Shoeybi et al. 2019). */
typedef struct train_linear {
  int in_width, out_width;
} train_linear_t;

/* Rows of heads * head_width elements in an array of activations, `stride` elements apart. */
typedef struct train_head_rows {
  const void *values;
  int stride;
  int sequence_rows; /* from a sequence's first row to the next one's; 0: those of the batch */
} train_head_rows_t;

/* Attention of queries to keys and values at positions of their own, which a query sees up to its
 * position. Both batches have the same sequences. */
typedef struct train_attention_segment {
  train_batch_t queries, keys;
  int heads, head_width;
  train_head_rows_t query, key, value;
} train_attention_segment_t;

/* Floats of what the queries of a batch accumulate. */
static inline size_t train_attention_running_floats(const train_batch_t *queries, int heads,
                                                    int head_width) {
  return (size_t)train_batch_rows(queries) * (size_t)heads * (size_t)(head_width + 2);
}

/* The largest sizes that a model uses: of a rank's part, where the model is cut. */
typedef struct train_ops_sizes {
  int rows, width;
  int length, keys; /* of a sequence in attention: queries and, if there are more, keys */
  int head_width;
  int vocabulary, vocabulary_parts; /* parts 0: not cut */
  int threads;
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

  /* out[row] = token_table[token of row] + position_table[position of row], of `width`. Tokens
   * outside the vocabulary contribute 0, and so does a position table that is NULL: if one part
   * of a cut vocabulary has the position table, the sum of the parts' outputs has the bits of the
   * uncut operator. The backward pass adds to the tables' gradients; it overwrites that of the
   * position table ([context, width]) if `overwrite`. Either gradient may be NULL. */
  void (*embedding_forward)(const train_exec_t *exec, const train_batch_t *batch,
                            const int32_t *tokens, train_vocabulary_t vocabulary,
                            const void *token_table, const void *position_table, int width,
                            void *out);
  void (*embedding_backward)(const train_exec_t *exec, const train_batch_t *batch,
                             const int32_t *tokens, train_vocabulary_t vocabulary,
                             const void *d_out, int width, int context, bool overwrite,
                             float *d_token_table, float *d_position_table);

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
   * `hidden`. d_in may be NULL, and so may d_bias, or d_weight and d_bias: these gradients are not
   * computed, nor what only they need read (`weight` and `hidden` for d_in, `in` for d_weight). Two
   * calls, for d_in and for the parameters, give the bits of one (Qi et al. 2023, zero bubble). */
  void (*linear_backward)(const train_exec_t *exec, const train_linear_t *linear, const void *d_out,
                          const void *in, int rows, const void *weight, const void *hidden,
                          bool overwrite, void *d_in, float *d_weight, float *d_bias);

  /* out[rows, width] = in + (bias + residual), of which bias[width] or residual[rows, width] may be
   * NULL. `out` may be `in` or `residual`. */
  void (*bias_residual)(const train_exec_t *exec, const void *in, const void *bias,
                        const void *residual, int rows, int width, void *out);
  /* d_bias = the sum of the rows of d_out. */
  void (*bias_backward)(const train_exec_t *exec, const void *d_out, int rows, int width,
                        bool overwrite, float *d_bias);

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

  /* Attention between segments, for sequences that are cut: by positions over ranks (Liu et al.
   * 2023) or into slices of tokens (Li et al. 2021). One call per segment of keys, in any order,
   * accumulates in running[train_attention_running_floats], which the first call overwrites; then
   * `finish`, which destroys it, stores the results of attention_forward. Keys that a query does
   * not see cost nothing in whole tiles of queries; each query must see a key of one call.
   *
   * Backward: d_sums[rows * heads] once, from `out` and its gradient; then one call per segment,
   * in any order, adds to float32 gradients, which the caller sets to 0 before and `store` rounds
   * into rows of heads * head_width elements, `stride` elements apart. `running`, `d_sums` and
   * these gradients are ordered by sequence, head, row. */
  void (*attention_segment_forward)(const train_exec_t *exec,
                                    const train_attention_segment_t *segment, bool first,
                                    float *running);
  void (*attention_segment_finish)(const train_exec_t *exec,
                                   const train_attention_segment_t *segment, float *running,
                                   void *out, float *log_sums);
  void (*attention_segment_d_sums)(const train_exec_t *exec,
                                   const train_attention_segment_t *segment, const void *out,
                                   const void *d_out, float *d_sums);
  void (*attention_segment_backward)(const train_exec_t *exec,
                                     const train_attention_segment_t *segment, const void *d_out,
                                     const float *log_sums, const float *d_sums, float *d_query,
                                     float *d_key, float *d_value);
  void (*attention_segment_store)(const train_exec_t *exec, const train_batch_t *batch, int heads,
                                  int head_width, const float *gradients, void *out, int stride);

  /* The tied classifier fused with softmax cross-entropy: logits = in * table^T, computed for some
   * rows at a time, so that the logits of all rows never exist together. Returns the loss in nats,
   * summed over rows. d_in and d_table, unless both are NULL, receive the gradients of scale *
   * loss.
   *
   * `parts` is NULL, or the classes are cut: each part calls the operator with the same `in`, rows
   * and targets and its own part of the table. For some rows at a time, the parts gather 3 floats
   * per row: the largest logit, the sum of exponentials relative to it and the target's logit
   * (Shoeybi et al. 2019). Every part returns the same bits of the whole loss, which is to be
   * counted once; d_table is the part's own; the gradient of `in` is the sum of the parts' d_in. */
  double (*classifier)(const train_exec_t *exec, const void *in, const void *table,
                       const int32_t *targets, int rows, int width, train_vocabulary_t classes,
                       const train_parts_t *parts, float scale, bool overwrite, void *d_in,
                       float *d_table);
} train_ops_t;

/* The host backend: vectorized loops, and matrix products of several libraries, on a thread pool.
 */
extern const train_ops_t train_ops_host;

#endif
