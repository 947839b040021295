/*
 * Causal attention, a task for each head of each sequence, in tiles of QUERIES by KEYS positions.
 * Forward keeps, for each query, the largest score so far, and the sum of exponentials and of
 * weighted values relative to it; when a later tile has a larger score, they shrink. Backward makes
 * the weights of a tile again from the scores and the logarithm of the final sum.
 */
#include <cblas.h>
#include <math.h>
#include <string.h>

#include "libtrain/ops/blas.h"
#include "libtrain/ops/host.h"
#include "libtrain/ops/vector.h"

#define QUERIES 64
#define KEYS 64

/* Of one call. */
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

/* One head of one sequence. Rows of queries, keys and values lie 3 * width apart, and queries begin
 * at position `first`; rows of the output lie `width` apart. */
typedef struct head {
  const float *query, *key, *value;
  int stride, out_stride, sum_stride;
  int queries, first, width;
  float scale;
  float *out, *log_sums;
} head_t;

static int least(int a, int b) {
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

/* A row of `keys` scores, of which the first `seen` count, becomes exponentials relative to the
 * largest score of the row so far. Updates that and the sum of exponentials; returns what the
 * weighted values so far are to be multiplied with. */
TRAIN_VECTORIZED
static float soften(float *restrict scores, int seen, int keys, float *largest, float *sum) {
  float most = train_largest(scores, seen), added = 0;
  most = most > *largest ? most : *largest;
#pragma omp simd reduction(+ : added)
  for (int i = 0; i < seen; i++) {
    scores[i] = train_exp(scores[i] - most);
    added += scores[i];
  }
  for (int i = seen; i < keys; i++) scores[i] = 0;
  float shrink = train_exp(*largest - most);
  *largest = most;
  *sum = *sum * shrink + added;
  return shrink;
}

TRAIN_VECTORIZED
static void scale_row(float *restrict row, int count, float by) {
  for (int i = 0; i < count; i++) row[i] *= by;
}

TRAIN_VECTORIZED
static void copy_scaled(const float *row, int count, float by, float *restrict out) {
  for (int i = 0; i < count; i++) out[i] = row[i] * by;
}

/* Queries `from` to from + rows - 1 against all keys they may see. */
static void forward_tile(const head_t *h, int from, int rows, float *scratch) {
  float *scores = scratch, *values = scores + QUERIES * KEYS;
  float *largest = values + (size_t)QUERIES * h->width, *sum = largest + QUERIES;
  const float *query = h->query + (size_t)from * h->stride;
  int end = h->first + from + rows; /* of the keys that the last query sees */
  for (int i = 0; i < rows; i++) largest[i] = -INFINITY, sum[i] = 0;
  for (int key = 0; key < end; key += KEYS) {
    int keys = least(KEYS, end - key);
    multiply(CblasNoTrans, CblasTrans, rows, keys, h->width, h->scale, query, h->stride,
             h->key + (size_t)key * h->stride, h->stride, false, scores, KEYS);
    for (int i = 0; i < rows; i++) {
      int seen = least(keys, h->first + from + i + 1 - key);
      if (seen <= 0) {
        memset(scores + i * KEYS, 0, (size_t)keys * sizeof *scores);
        continue;
      }
      float shrink = soften(scores + i * KEYS, seen, keys, &largest[i], &sum[i]);
      if (key > 0 && shrink != 1.0f) scale_row(values + (size_t)i * h->width, h->width, shrink);
    }
    multiply(CblasNoTrans, CblasNoTrans, rows, h->width, keys, 1.0f, scores, KEYS,
             h->value + (size_t)key * h->stride, h->stride, key > 0, values, h->width);
  }
  for (int i = 0; i < rows; i++) {
    copy_scaled(values + (size_t)i * h->width, h->width, 1.0f / sum[i],
                h->out + (size_t)(from + i) * h->out_stride);
    h->log_sums[(size_t)(from + i) * h->sum_stride] = largest[i] + logf(sum[i]);
  }
}

static void forward_task(void *context, int task, int thread) {
  const attention_t *a = context;
  const head_t h = head_of(a, task);
  float *scratch = a->scratch + (size_t)thread * a->scratch_per_thread;
  for (int from = 0; from < h.queries; from += QUERIES) {
    forward_tile(&h, from, least(QUERIES, h.queries - from), scratch);
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

void train_host_attention_forward(train_pool_t *pool, const train_batch_t *batch, const float *qkv,
                                  int heads, int width, float *scratch, float *out,
                                  float *log_sums) {
  attention_t a = attention_of(batch, qkv, heads, width, scratch);
  a.out = out;
  a.log_sums = log_sums;
  train_pool_run(pool, batch->sequences * heads, forward_task, &a);
}

/* ---- backward ---- */

/* The gradients of a head, laid out as what they belong to, and per query the product of its
 * output and that one's gradient. */
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

/* Scores to weights: the first `seen` of `keys`, the others 0. */
TRAIN_VECTORIZED
static void weigh(float *restrict scores, int seen, int keys, float log_sum) {
  for (int i = 0; i < seen; i++) scores[i] = train_exp(scores[i] - log_sum);
  for (int i = seen > 0 ? seen : 0; i < keys; i++) scores[i] = 0;
}

/* Gradients of weights to those of the products of queries and keys. */
TRAIN_VECTORIZED
static void unweigh(const float *weights, int keys, float d_sum, float scale, float *restrict d) {
  for (int i = 0; i < keys; i++) d[i] = weights[i] * (d[i] - d_sum) * scale;
}

/* `rows` queries from `from` on with `keys` keys from `key` on. What is first added to is
 * overwritten: a query's gradient at its first keys, a key's at its first queries. */
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
    weigh(weights + i * KEYS, least(keys, from + i + 1 - key), keys,
          h->log_sums[(size_t)(from + i) * h->sum_stride]);
  }
  multiply(CblasTrans, CblasNoTrans, keys, h->width, rows, 1.0f, weights, KEYS, d_out,
           h->out_stride, later, g->d_value + key_at, h->stride);
  for (int i = 0; i < rows; i++) {
    unweigh(weights + i * KEYS, keys, g->d_sums[from + i], h->scale, d_weights + i * KEYS);
  }
  multiply(CblasNoTrans, CblasNoTrans, rows, h->width, keys, 1.0f, d_weights, KEYS, h->key + key_at,
           h->stride, key > 0, g->d_query + query_at, h->stride);
  multiply(CblasTrans, CblasNoTrans, keys, h->width, rows, 1.0f, d_weights, KEYS,
           h->query + query_at, h->stride, later, g->d_key + key_at, h->stride);
}

_Static_assert(QUERIES == KEYS, "the first tile of queries that sees keys begins where they do");

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
      backward_tile(&h, &g, from, least(QUERIES, h.queries - from), key,
                    least(KEYS, h.queries - key), scratch);
    }
  }
}

void train_host_attention_backward(train_pool_t *pool, const train_batch_t *batch,
                                   const float *d_out, const float *qkv, const float *out,
                                   const float *log_sums, int heads, int width, float *scratch,
                                   float *d_qkv) {
  attention_t a = attention_of(batch, qkv, heads, width, scratch);
  a.out = (float *)out;
  a.log_sums = (float *)log_sums;
  a.d_out = d_out;
  a.d_qkv = d_qkv;
  train_pool_run(pool, batch->sequences * heads, backward_task, &a);
}
