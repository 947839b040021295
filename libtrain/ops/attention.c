/*
 * Causal attention: one task per head of each sequence, in tiles of QUERIES x KEYS positions.
 * Forward uses the online softmax: for each query it keeps the maximum score so far and, relative
 * to it, the sum of exponentials and of weighted values, which are rescaled when the maximum grows.
 * Backward recomputes the weights of each tile from the scores and the logarithm of the final sum.
 */
#include <math.h>
#include <string.h>

#include "libtrain/common/vector.h"
#include "libtrain/ops/blas.h"
#include "libtrain/ops/gemm.h"
#include "libtrain/ops/host.h"

#define QUERIES 64
#define KEYS 64

/* Arguments of a call. */
typedef struct attention {
  train_gemm_t *gemm;
  const train_batch_t *batch;
  int heads, width, head_width;
  float scale; /* of scores */
  const float *qkv;
  float *out, *log_sums;
  const float *d_out;
  float *d_qkv;
  float *scratch; /* [threads, floats_per_thread] */
  size_t scratch_per_thread;
} attention_t;

/* One head of one sequence, processed by pool thread `thread`. Rows of queries, keys and values are
 * 3 * width apart; rows of the output are `width` apart. Queries start at position `first`. */
typedef struct head {
  train_gemm_t *gemm;
  int thread;
  const float *query, *key, *value;
  int stride, out_stride, sum_stride;
  int queries, first, width;
  float scale;
  float *out, *log_sums;
} head_t;

static int min_int(int a, int b) {
  return a < b ? a : b;
}

static size_t per_thread(int length, int head_width) {
  size_t tile = (size_t)QUERIES * KEYS, sums = (size_t)QUERIES * 2;
  size_t floats = 2 * tile + (size_t)QUERIES * (size_t)head_width + sums + (size_t)length;
  return (floats + 15) / 16 * 16;
}

size_t train_host_attention_scratch(const train_ops_sizes_t *sizes) {
  return (size_t)sizes->threads * per_thread(sizes->length, sizes->width / sizes->heads);
}

static head_t head_of(const attention_t *a, int task, int thread) {
  const train_batch_t *batch = a->batch;
  size_t sequence = (size_t)(task / a->heads), column = (size_t)(task % a->heads * a->head_width);
  size_t stride = 3 * (size_t)a->width, rows = sequence * (size_t)batch->length;
  const float *key = a->qkv + rows * stride + column + a->width;
  return (head_t){.gemm = a->gemm,
                  .thread = thread,
                  .query = key - a->width + (size_t)batch->first * stride,
                  .key = key,
                  .value = key + a->width,
                  .stride = (int)stride,
                  .out_stride = a->width,
                  .sum_stride = a->heads,
                  .queries = batch->length,
                  .first = batch->first,
                  .width = a->head_width,
                  .scale = a->scale,
                  .out = a->out + rows * (size_t)a->width + column,
                  .log_sums = a->log_sums + rows * (size_t)a->heads + task % a->heads};
}

/* A factor or the result of a product: rows are `stride` apart in memory. */
typedef struct matrix {
  float *values;
  int stride;
} matrix_t;

static matrix_t read_only(const float *values, int stride) {
  return (matrix_t){(float *)values, stride};
}

/* out[rows, columns] = a[rows, depth] * b[columns, depth]^T. */
static void multiply_nt(const head_t *h, int rows, int columns, int depth, matrix_t a, matrix_t b,
                        matrix_t out) {
  train_gemm_run_serial(h->gemm, h->thread,
                        &(train_product_t){.rows = rows,
                                           .columns = columns,
                                           .depth = depth,
                                           .a = a.values,
                                           .a_stride = a.stride,
                                           .b = b.values,
                                           .b_stride = b.stride,
                                           .b_transposed = true,
                                           .out = out.values,
                                           .out_stride = out.stride});
}

/* out[rows, columns] (+)= a * b[depth, columns], where a is [rows, depth], or [depth, rows] if it
 * is transposed. */
static void multiply_add(const head_t *h, int rows, int columns, int depth, matrix_t a,
                         bool a_transposed, matrix_t b, bool add, matrix_t out) {
  train_gemm_run_serial(h->gemm, h->thread,
                        &(train_product_t){.rows = rows,
                                           .columns = columns,
                                           .depth = depth,
                                           .a = a.values,
                                           .a_stride = a.stride,
                                           .a_transposed = a_transposed,
                                           .b = b.values,
                                           .b_stride = b.stride,
                                           .add = add,
                                           .out = out.values,
                                           .out_stride = out.stride});
}

/* ---- forward ---- */

/* Processes a row of scores of which the first `visible` are not masked: replaces them by
 * exponentials, after scaling, relative to the row's maximum so far, updates this maximum and the
 * sum of exponentials, and returns the factor by which earlier weighted values must be rescaled. */
TRAIN_VECTORIZED
static float update_softmax(float *restrict scores, int visible, int keys, float scale,
                            float *row_max, float *sum) {
  float new_max = train_max(scores, visible) * scale, added = 0;
  new_max = new_max > *row_max ? new_max : *row_max;
#pragma omp simd reduction(+ : added)
  for (int i = 0; i < visible; i++) {
    scores[i] = train_exp(scores[i] * scale - new_max);
    added += scores[i];
  }
  for (int i = visible; i < keys; i++) scores[i] = 0;
  float rescale = train_exp(*row_max - new_max);
  *row_max = new_max;
  *sum = *sum * rescale + added;
  return rescale;
}

TRAIN_VECTORIZED
static void scale_row(float *restrict row, int count, float by) {
  for (int i = 0; i < count; i++) row[i] *= by;
}

TRAIN_VECTORIZED
static void copy_scaled(const float *row, int count, float by, float *restrict out) {
  for (int i = 0; i < count; i++) out[i] = row[i] * by;
}

/* Queries `from` to from + rows - 1 against all keys visible to them. */
static void forward_tile(const head_t *h, int from, int rows, float *scratch) {
  float *scores = scratch, *values = scores + QUERIES * KEYS;
  float *row_max = values + (size_t)QUERIES * h->width, *sum = row_max + QUERIES;
  const float *query = h->query + (size_t)from * h->stride;
  int end = h->first + from + rows; /* number of keys visible to the last query */
  for (int i = 0; i < rows; i++) row_max[i] = -INFINITY, sum[i] = 0;
  for (int key = 0; key < end; key += KEYS) {
    int keys = min_int(KEYS, end - key);
    multiply_nt(h, rows, keys, h->width, read_only(query, h->stride),
                read_only(h->key + (size_t)key * h->stride, h->stride), (matrix_t){scores, KEYS});
    for (int i = 0; i < rows; i++) {
      int visible = min_int(keys, h->first + from + i + 1 - key);
      if (visible <= 0) {
        memset(scores + i * KEYS, 0, (size_t)keys * sizeof *scores);
        continue;
      }
      float rescale =
          update_softmax(scores + i * KEYS, visible, keys, h->scale, &row_max[i], &sum[i]);
      if (key > 0 && rescale != 1.0f) scale_row(values + (size_t)i * h->width, h->width, rescale);
    }
    multiply_add(h, rows, h->width, keys, (matrix_t){scores, KEYS}, false,
                 read_only(h->value + (size_t)key * h->stride, h->stride), key > 0,
                 (matrix_t){values, h->width});
  }
  for (int i = 0; i < rows; i++) {
    copy_scaled(values + (size_t)i * h->width, h->width, 1.0f / sum[i],
                h->out + (size_t)(from + i) * h->out_stride);
    h->log_sums[(size_t)(from + i) * h->sum_stride] = row_max[i] + logf(sum[i]);
  }
}

static void forward_task(void *context, int task, int thread) {
  const attention_t *a = context;
  const head_t h = head_of(a, task, thread);
  float *scratch = a->scratch + (size_t)thread * a->scratch_per_thread;
  for (int from = 0; from < h.queries; from += QUERIES) {
    forward_tile(&h, from, min_int(QUERIES, h.queries - from), scratch);
  }
}

static attention_t attention_of(const train_exec_t *exec, const train_batch_t *batch,
                                const float *qkv, int heads, int width) {
  int head_width = width / heads;
  train_blas_prepare();
  return (attention_t){.gemm = exec->gemm,
                       .batch = batch,
                       .heads = heads,
                       .width = width,
                       .head_width = head_width,
                       .scale = 1.0f / sqrtf((float)head_width),
                       .qkv = qkv,
                       .scratch = exec->scratch,
                       .scratch_per_thread = per_thread(batch->length, head_width)};
}

void train_host_attention_forward(const train_exec_t *exec, const train_batch_t *batch,
                                  const void *qkv, int heads, int width, void *out,
                                  float *log_sums) {
  attention_t a = attention_of(exec, batch, qkv, heads, width);
  a.out = out;
  a.log_sums = log_sums;
  train_pool_run(exec->pool, batch->sequences * heads, forward_task, &a);
}

/* ---- backward ---- */

/* Gradients of a head, in the layout of its inputs. d_sums[i] is the dot product of query i's
 * output and the gradient of that output. */
typedef struct head_gradients {
  const float *d_out;
  float *d_query, *d_key, *d_value;
  float *d_sums; /* [queries] */
} head_gradients_t;

TRAIN_VECTORIZED
static float dot(const float *a, const float *b, int count) {
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int i = 0; i < count; i++) sum += a[i] * b[i];
  return sum;
}

/* Replaces the first `visible` of `keys` scores by softmax weights, the others by 0. */
TRAIN_VECTORIZED
static void scores_to_weights(float *restrict scores, int visible, int keys, float scale,
                              float log_sum) {
  for (int i = 0; i < visible; i++) scores[i] = train_exp(scores[i] * scale - log_sum);
  for (int i = visible > 0 ? visible : 0; i < keys; i++) scores[i] = 0;
}

/* Replaces the gradients of the weights by those of the query-key products. */
TRAIN_VECTORIZED
static void weight_to_score_gradients(const float *weights, int keys, float d_sum, float scale,
                                      float *restrict d) {
  for (int i = 0; i < keys; i++) d[i] = weights[i] * (d[i] - d_sum) * scale;
}

/* `rows` queries starting at `from` with `keys` keys starting at `key`. The first contribution
 * to a gradient overwrites it: for queries the first tile of keys, for keys the first tile of
 * queries. */
static void backward_tile(const head_t *h, const head_gradients_t *g, int from, int rows, int key,
                          int keys, float *scratch) {
  const matrix_t weights = {scratch, KEYS}, d_weights = {scratch + QUERIES * KEYS, KEYS};
  size_t query_at = (size_t)from * h->stride, key_at = (size_t)key * h->stride;
  const matrix_t queries = read_only(h->query + query_at, h->stride);
  const matrix_t key_rows = read_only(h->key + key_at, h->stride);
  const matrix_t values = read_only(h->value + key_at, h->stride);
  const matrix_t d_out = read_only(g->d_out + (size_t)from * h->out_stride, h->out_stride);
  bool later = from > key;
  multiply_nt(h, rows, keys, h->width, queries, key_rows, weights);
  multiply_nt(h, rows, keys, h->width, d_out, values, d_weights);
  for (int i = 0; i < rows; i++) {
    float *row = weights.values + i * KEYS;
    scores_to_weights(row, min_int(keys, from + i + 1 - key), keys, h->scale,
                      h->log_sums[(size_t)(from + i) * h->sum_stride]);
    weight_to_score_gradients(row, keys, g->d_sums[from + i], h->scale,
                              d_weights.values + i * KEYS);
  }
  multiply_add(h, keys, h->width, rows, weights, true, d_out, later,
               (matrix_t){g->d_value + key_at, h->stride});
  multiply_add(h, rows, h->width, keys, d_weights, false, key_rows, key > 0,
               (matrix_t){g->d_query + query_at, h->stride});
  multiply_add(h, keys, h->width, rows, d_weights, true, queries, later,
               (matrix_t){g->d_key + key_at, h->stride});
}

_Static_assert(QUERIES == KEYS,
               "the first tile of queries to which a tile of keys is visible has the same start");

static void backward_task(void *context, int task, int thread) {
  const attention_t *a = context;
  const head_t h = head_of(a, task, thread);
  float *scratch = a->scratch + (size_t)thread * a->scratch_per_thread;
  float *d_query = a->d_qkv + (h.query - a->qkv);
  const head_gradients_t g = {.d_out = a->d_out + (h.out - a->out),
                              .d_query = d_query,
                              .d_key = d_query + a->width,
                              .d_value = d_query + 2 * a->width,
                              .d_sums = scratch + 2 * QUERIES * KEYS};
  for (int i = 0; i < h.queries; i++) {
    size_t at = (size_t)i * h.out_stride;
    g.d_sums[i] = dot(h.out + at, g.d_out + at, h.width);
  }
  for (int key = 0; key < h.queries; key += KEYS) {
    for (int from = key; from < h.queries; from += QUERIES) {
      backward_tile(&h, &g, from, min_int(QUERIES, h.queries - from), key,
                    min_int(KEYS, h.queries - key), scratch);
    }
  }
}

void train_host_attention_backward(const train_exec_t *exec, const train_batch_t *batch,
                                   const void *d_out, const void *qkv, const void *out,
                                   const float *log_sums, int heads, int width, void *d_qkv) {
  attention_t a = attention_of(exec, batch, qkv, heads, width);
  a.out = (float *)out;
  a.log_sums = (float *)log_sums;
  a.d_out = d_out;
  a.d_qkv = d_qkv;
  train_pool_run(exec->pool, batch->sequences * heads, backward_task, &a);
}
