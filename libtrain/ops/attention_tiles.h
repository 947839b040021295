/*
 * Tiles of causal attention: at most ATTENTION_QUERIES x ATTENTION_KEYS positions of one head of
 * one sequence. Forward uses the online softmax: for each query it keeps the maximum score so far
 * and, relative to it, the sum of exponentials and of weighted values, which are rescaled when the
 * maximum grows. Backward recomputes the weights of a tile from the scores and the logarithm of the
 * final sum (Dao et al. 2022).
 *
 * Sums are float32. With a narrow element type, weights and gradients of scores are rounded as
 * factors of products only; they are converted in place, so that rows of both types start at the
 * same addresses.
 */
#ifndef LIBTRAIN_OPS_ATTENTION_TILES_H
#define LIBTRAIN_OPS_ATTENTION_TILES_H

#include "libtrain/gemm/gemm.h"
#include "libtrain/ops/ops.h"

#define ATTENTION_QUERIES 128
#define ATTENTION_KEYS 256

/* A matrix of the operator's element type: rows are `stride` elements apart. */
typedef struct attention_matrix {
  const void *values;
  int stride;
} attention_matrix_t;

/* Consecutive queries and consecutive keys of one head of one sequence, processed by pool thread
 * `thread`. Rows have `width` elements. */
typedef struct attention_head {
  train_gemm_t *gemm;
  train_dtype_t dtype;
  int thread, width;
  int queries, keys;
  int ahead; /* the position of the first query minus that of the first key; may be negative */
  attention_matrix_t query, key, value;
  attention_matrix_t d_out; /* of queries; backward only, as the following */
  const float *log_sums;    /* of queries, log_sums_stride apart */
  int log_sums_stride;
  const float *d_sums; /* of queries: the product of the output and its gradient */
} attention_head_t;

/* Scores of a tile, or what is computed from them, as float32 or converted in place. */
typedef struct attention_scores {
  float *values;
  int stride; /* in floats */
} attention_scores_t;

/* What queries have accumulated. */
typedef struct attention_running {
  float *values;         /* [rows, width], undefined while it is empty */
  float *row_max, *sums; /* [rows] */
  bool empty;
} attention_running_t;

/* Gradients that a tile adds to: [rows, width] of its queries and its keys. */
typedef struct attention_gradients {
  float *query, *key, *value;
} attention_gradients_t;

static inline int attention_min(int a, int b) {
  return a < b ? a : b;
}

static inline size_t attention_round_up(size_t floats) {
  return (floats + 15) / 16 * 16;
}

static inline int attention_query_tile(int queries) {
  return attention_min(ATTENTION_QUERIES, queries);
}

static inline int attention_query_tiles(int queries) {
  return (queries + ATTENTION_QUERIES - 1) / ATTENTION_QUERIES;
}

/* The row stride of scores. Not a power of 2, which would cause cache conflicts. */
static inline int attention_score_stride(int keys) {
  return (int)attention_round_up((size_t)attention_min(ATTENTION_KEYS, keys)) + 16;
}

static inline size_t attention_score_floats(int queries, int keys) {
  return (size_t)attention_query_tile(queries) * (size_t)attention_score_stride(keys);
}

/* The keys that are visible to at least one of the `queries` first queries. */
static inline int attention_visible(const attention_head_t *h, int queries) {
  int visible = attention_min(h->keys, h->ahead + queries);
  return visible > 0 ? visible : 0;
}

/* Nothing accumulated for `rows` queries. */
void attention_start(attention_running_t *running, int rows);

/* Adds all keys that are visible to `rows` queries starting at `from`. */
void attention_attend(const attention_head_t *h, int from, int rows, attention_scores_t scores,
                      attention_running_t *running);

/* out[rows, width], rounded, whose rows are out_stride elements apart, and log_sums, from what was
 * accumulated, which is destroyed. */
void attention_finish(const attention_running_t *running, train_dtype_t dtype, int rows, int width,
                      void *out, int out_stride, float *log_sums, int log_sums_stride);

/* The product of an output and its gradient, of `width` elements each at `at`; buffer[2 * width].
 */
float attention_d_sum(train_dtype_t dtype, const void *out, const void *d_out, size_t at, int width,
                      float *buffer);

/* Adds the contributions of all queries with `keys` keys starting at `key`. Gradients of queries
 * start at the first query, those of keys and values at `key`. */
void attention_backward_keys(const attention_head_t *h, int key, int keys,
                             attention_scores_t weights, attention_scores_t d_weights,
                             const attention_gradients_t *gradients);

/* Rounds gradients[rows, width] into an array whose rows are `stride` elements apart. */
void attention_store(train_dtype_t dtype, const float *gradients, int rows, int width, void *out,
                     size_t stride);

#endif
