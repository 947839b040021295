/*
 * Causal attention: one task per head of each sequence, in tiles of QUERIES x KEYS positions.
 * Forward uses the online softmax: for each query it keeps the maximum score so far and, relative
 * to it, the sum of exponentials and of weighted values, which are rescaled when the maximum grows.
 * Backward recomputes the weights of each tile from the scores and the logarithm of the final sum.
 */
#include <cblas.h>
#include <math.h>
#include <string.h>

#include "libtrain/common/vector.h"
#include "libtrain/ops/blas.h"
#include "libtrain/ops/host.h"

#define QUERIES 64
#define KEYS 64

/* Arguments of a call. */
typedef struct attention {
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

/* One head of one sequence. Rows of queries, keys and values are 3 * width apart; rows of the
 * output are `width` apart. Queries start at position `first`. */
typedef struct head {
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

static head_t head_of(const attention_t *a, int task) {
  const train_batch_t *batch = a->batch;
  size_t sequence = (size_t)(task / a->heads), column = (size_t)(task % a->heads * a->head_width);
  size_t stride = 3 * (size_t)a->width, rows = sequence * (size_t)batch->length;
  const float *key = a->qkv + rows * stride + column + a->width;
  return (head_t){.query = key - a->width + (size_t)batch->first * stride,
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

/* out[rows, columns] (+)= scale * a[rows, depth] * b[depth, columns], as they lie in memory. */
static void multiply(CBLAS_TRANSPOSE a_transposed, CBLAS_TRANSPOSE b_transposed, int rows,
                     int columns, int depth, float scale, const float *a, int a_stride,
                     const float *b, int b_stride, bool add, float *out, int out_stride) {
  cblas_sgemm(CblasRowMajor, a_transposed, b_transposed, rows, columns, depth, scale, a, a_stride,
              b, b_stride, add ? 1.0f : 0.0f, out, out_stride);
}

/* ---- forward ---- */

/* Processes a row of scores of which the first `visible` are not masked: replaces them by
 * exponentials relative to the row's maximum so far, updates this maximum and the sum of
 * exponentials, and returns the factor by which earlier weighted values must be rescaled. */
TRAIN_VECTORIZED
static float update_softmax(float *restrict scores, int visible, int keys, float *row_max,
                            float *sum) {
  float new_max = train_max(scores, visible), added = 0;
  new_max = new_max > *row_max ? new_max : *row_max;
#pragma omp simd reduction(+ : added)
  for (int i = 0; i < visible; i++) {
    scores[i] = train_exp(scores[i] - new_max);
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
    multiply(CblasNoTrans, CblasTrans, rows, keys, h->width, h->scale, query, h->stride,
             h->key + (size_t)key * h->stride, h->stride, false, scores, KEYS);
    for (int i = 0; i < rows; i++) {
      int visible = min_int(keys, h->first + from + i + 1 - key);
      if (visible <= 0) {
        memset(scores + i * KEYS, 0, (size_t)keys * sizeof *scores);
        continue;
      }
      float rescale = update_softmax(scores + i * KEYS, visible, keys, &row_max[i], &sum[i]);
      if (key > 0 && rescale != 1.0f) scale_row(values + (size_t)i * h->width, h->width, rescale);
    }
    multiply(CblasNoTrans, CblasNoTrans, rows, h->width, keys, 1.0f, scores, KEYS,
             h->value + (size_t)key * h->stride, h->stride, key > 0, values, h->width);
  }
  for (int i = 0; i < rows; i++) {
    copy_scaled(values + (size_t)i * h->width, h->width, 1.0f / sum[i],
                h->out + (size_t)(from + i) * h->out_stride);
    h->log_sums[(size_t)(from + i) * h->sum_stride] = row_max[i] + logf(sum[i]);
  }
}

static void forward_task(void *context, int task, int thread) {
  const attention_t *a = context;
  const head_t h = head_of(a, task);
  float *scratch = a->scratch + (size_t)thread * a->scratch_per_thread;
  for (int from = 0; from < h.queries; from += QUERIES) {
    forward_tile(&h, from, min_int(QUERIES, h.queries - from), scratch);
  }
}

static attention_t attention_of(const train_batch_t *batch, const float *qkv, int heads, int width,
                                float *scratch) {
  int head_width = width / heads;
  train_blas_prepare();
  return (attention_t){.batch = batch,
                       .heads = heads,
                       .width = width,
                       .head_width = head_width,
                       .scale = 1.0f / sqrtf((float)head_width),
                       .qkv = qkv,
                       .scratch = scratch,
                       .scratch_per_thread = per_thread(batch->length, head_width)};
}

void train_host_attention_forward(const train_exec_t *exec, const train_batch_t *batch,
                                  const void *qkv, int heads, int width, void *out,
                                  float *log_sums) {
  attention_t a = attention_of(batch, qkv, heads, width, exec->scratch);
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
static void scores_to_weights(float *restrict scores, int visible, int keys, float log_sum) {
  for (int i = 0; i < visible; i++) scores[i] = train_exp(scores[i] - log_sum);
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
  float *weights = scratch, *d_weights = weights + QUERIES * KEYS;
  size_t query_at = (size_t)from * h->stride, key_at = (size_t)key * h->stride;
  const float *d_out = g->d_out + (size_t)from * h->out_stride;
  bool later = from > key;
  multiply(CblasNoTrans, CblasTrans, rows, keys, h->width, h->scale, h->query + query_at, h->stride,
           h->key + key_at, h->stride, false, weights, KEYS);
  multiply(CblasNoTrans, CblasTrans, rows, keys, h->width, 1.0f, d_out, h->out_stride,
           h->value + key_at, h->stride, false, d_weights, KEYS);
  for (int i = 0; i < rows; i++) {
    scores_to_weights(weights + i * KEYS, min_int(keys, from + i + 1 - key), keys,
                      h->log_sums[(size_t)(from + i) * h->sum_stride]);
  }
  multiply(CblasTrans, CblasNoTrans, keys, h->width, rows, 1.0f, weights, KEYS, d_out,
           h->out_stride, later, g->d_value + key_at, h->stride);
  for (int i = 0; i < rows; i++) {
    weight_to_score_gradients(weights + i * KEYS, keys, g->d_sums[from + i], h->scale,
                              d_weights + i * KEYS);
  }
  multiply(CblasNoTrans, CblasNoTrans, rows, h->width, keys, 1.0f, d_weights, KEYS, h->key + key_at,
           h->stride, key > 0, g->d_query + query_at, h->stride);
  multiply(CblasTrans, CblasNoTrans, keys, h->width, rows, 1.0f, d_weights, KEYS,
           h->query + query_at, h->stride, later, g->d_key + key_at, h->stride);
}

_Static_assert(QUERIES == KEYS,
               "the first tile of queries to which a tile of keys is visible has the same start");

static void backward_task(void *context, int task, int thread) {
  const attention_t *a = context;
  const head_t h = head_of(a, task);
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
  attention_t a = attention_of(batch, qkv, heads, width, exec->scratch);
  a.out = (float *)out;
  a.log_sums = (float *)log_sums;
  a.d_out = d_out;
  a.d_qkv = d_qkv;
  train_pool_run(exec->pool, batch->sequences * heads, backward_task, &a);
}
