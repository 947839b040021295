/* Tiles of causal attention: products, softmax and its gradient. */
#include "libtrain/ops/attention_tiles.h"

#include <math.h>
#include <string.h>

#include "libtrain/common/vector.h"

static float scale_of(const attention_head_t *h) {
  return 1.0f / sqrtf((float)h->width);
}

static attention_matrix_t rows_from(const attention_head_t *h, attention_matrix_t matrix, int row) {
  size_t at = (size_t)row * (size_t)matrix.stride;
  return (attention_matrix_t){train_dtype_const_at(h->dtype, matrix.values, at), matrix.stride};
}

/* The scores after their conversion. */
static attention_matrix_t converted(const attention_head_t *h, attention_scores_t scores) {
  int per_float = (int)(sizeof(float) / train_dtype_bytes(h->dtype));
  return (attention_matrix_t){scores.values, scores.stride * per_float};
}

static float *score_row(attention_scores_t scores, int row) {
  return scores.values + (size_t)row * (size_t)scores.stride;
}

/* ---- products ---- */

/* out[rows, columns] = a[rows, width] * b[columns, width]^T. */
static void multiply_rows(const attention_head_t *h, int rows, int columns, attention_matrix_t a,
                          attention_matrix_t b, attention_scores_t out) {
  train_gemm_run_serial(h->gemm, h->thread,
                        &(train_product_t){.rows = rows,
                                           .columns = columns,
                                           .depth = h->width,
                                           .dtype = h->dtype,
                                           .a = a.values,
                                           .a_stride = a.stride,
                                           .b = b.values,
                                           .b_stride = b.stride,
                                           .b_transposed = true,
                                           .out = out.values,
                                           .out_stride = out.stride});
}

/* out[rows, width] (+)= a * b[depth, width], where a is [rows, depth], or [depth, rows] if it is
 * transposed. */
static void multiply_weighted(const attention_head_t *h, int rows, int depth, attention_matrix_t a,
                              bool a_transposed, attention_matrix_t b, bool add, float *out) {
  train_gemm_run_serial(h->gemm, h->thread,
                        &(train_product_t){.rows = rows,
                                           .columns = h->width,
                                           .depth = depth,
                                           .dtype = h->dtype,
                                           .a = a.values,
                                           .a_stride = a.stride,
                                           .a_transposed = a_transposed,
                                           .b = b.values,
                                           .b_stride = b.stride,
                                           .add = add,
                                           .out = out,
                                           .out_stride = h->width});
}

/* Converts a row of scores in place; nothing to do for float32. */
static void convert_row(train_dtype_t dtype, float *row, int keys) {
  if (dtype != TRAIN_FLOAT32) train_dtype_narrow(dtype, row, (size_t)keys, row);
}

/* ---- forward ---- */

void attention_start(attention_running_t *running, int rows) {
  for (int i = 0; i < rows; i++) running->row_max[i] = -INFINITY, running->sums[i] = 0;
  running->empty = true;
}

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

/* Adds the values of `keys` keys starting at `key`, weighted, to those of `rows` queries starting
 * at `from`. */
static void forward_tile(const attention_head_t *h, int from, int rows, int key, int keys,
                         attention_scores_t scores, attention_running_t *running) {
  float scale = scale_of(h);
  multiply_rows(h, rows, keys, rows_from(h, h->query, from), rows_from(h, h->key, key), scores);
  for (int i = 0; i < rows; i++) {
    float *row = score_row(scores, i);
    int visible = attention_min(keys, h->ahead + from + i + 1 - key);
    if (visible <= 0) {
      memset(row, 0, (size_t)keys * sizeof *row);
      continue;
    }
    float rescale =
        update_softmax(row, visible, keys, scale, &running->row_max[i], &running->sums[i]);
    convert_row(h->dtype, row, keys);
    if (!running->empty && rescale != 1.0f) {
      scale_row(running->values + (size_t)i * (size_t)h->width, h->width, rescale);
    }
  }
  multiply_weighted(h, rows, keys, converted(h, scores), false, rows_from(h, h->value, key),
                    !running->empty, running->values);
  running->empty = false;
}

void attention_attend(const attention_head_t *h, int from, int rows, attention_scores_t scores,
                      attention_running_t *running) {
  int visible = attention_visible(h, from + rows);
  for (int key = 0; key < visible; key += ATTENTION_KEYS) {
    int keys = attention_min(ATTENTION_KEYS, visible - key);
    forward_tile(h, from, rows, key, keys, scores, running);
  }
}

void attention_finish(const attention_running_t *running, train_dtype_t dtype, int rows, int width,
                      void *out, int out_stride, float *log_sums, int log_sums_stride) {
  for (int i = 0; i < rows; i++) {
    float *values = running->values + (size_t)i * (size_t)width;
    scale_row(values, width, 1.0f / running->sums[i]);
    train_dtype_narrow(dtype, values, (size_t)width,
                       train_dtype_at(dtype, out, (size_t)i * (size_t)out_stride));
    log_sums[(size_t)i * (size_t)log_sums_stride] = running->row_max[i] + logf(running->sums[i]);
  }
}

/* ---- backward ---- */

TRAIN_VECTORIZED
static float dot(const float *a, const float *b, int count) {
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int i = 0; i < count; i++) sum += a[i] * b[i];
  return sum;
}

float attention_d_sum(train_dtype_t dtype, const void *out, const void *d_out, size_t at, int width,
                      float *buffer) {
  size_t count = (size_t)width;
  return dot(train_dtype_read(dtype, out, at, count, buffer),
             train_dtype_read(dtype, d_out, at, count, buffer + count), width);
}

/* Replaces the first `visible` of `keys` scores by softmax weights and the gradients of these
 * weights by those of the query-key products; the others, which are masked, by 0. */
TRAIN_VECTORIZED
static void scores_to_gradients(float *restrict scores, float *restrict d, int visible, int keys,
                                float scale, float log_sum, float d_sum) {
  for (int i = 0; i < visible; i++) {
    float weight = train_exp(scores[i] * scale - log_sum);
    scores[i] = weight;
    d[i] = weight * (d[i] - d_sum) * scale;
  }
  for (int i = visible > 0 ? visible : 0; i < keys; i++) scores[i] = 0, d[i] = 0;
}

/* Adds the contributions of `rows` queries starting at `from`, whose gradients start at `d_query`,
 * with `keys` keys starting at `key`. */
static void backward_tile(const attention_head_t *h, int from, int rows, int key, int keys,
                          attention_scores_t weights, attention_scores_t d_weights,
                          const attention_gradients_t *g) {
  const attention_matrix_t query = rows_from(h, h->query, from),
                           d_out = rows_from(h, h->d_out, from);
  const attention_matrix_t key_rows = rows_from(h, h->key, key);
  float scale = scale_of(h);
  multiply_rows(h, rows, keys, query, key_rows, weights);
  multiply_rows(h, rows, keys, d_out, rows_from(h, h->value, key), d_weights);
  for (int i = 0; i < rows; i++) {
    float *row = score_row(weights, i), *d_row = score_row(d_weights, i);
    scores_to_gradients(row, d_row, attention_min(keys, h->ahead + from + i + 1 - key), keys, scale,
                        h->log_sums[(size_t)(from + i) * (size_t)h->log_sums_stride],
                        h->d_sums[from + i]);
    convert_row(h->dtype, row, keys);
    convert_row(h->dtype, d_row, keys);
  }
  multiply_weighted(h, keys, rows, converted(h, weights), true, d_out, true, g->value);
  multiply_weighted(h, keys, rows, converted(h, d_weights), true, query, true, g->key);
  multiply_weighted(h, rows, keys, converted(h, d_weights), false, key_rows, true,
                    g->query + (size_t)from * (size_t)h->width);
}

void attention_backward_keys(const attention_head_t *h, int key, int keys,
                             attention_scores_t weights, attention_scores_t d_weights,
                             const attention_gradients_t *gradients) {
  int first = key - h->ahead; /* the first query that sees one of the keys */
  if (first >= h->queries) return;
  int from = first > 0 ? first / ATTENTION_QUERIES * ATTENTION_QUERIES : 0;
  for (; from < h->queries; from += ATTENTION_QUERIES) {
    int rows = attention_min(ATTENTION_QUERIES, h->queries - from);
    int visible = attention_min(keys, h->ahead + from + rows - key);
    backward_tile(h, from, rows, key, visible, weights, d_weights, gradients);
  }
}

void attention_store(train_dtype_t dtype, const float *gradients, int rows, int width, void *out,
                     size_t stride) {
  for (size_t i = 0; i < (size_t)rows; i++) {
    train_dtype_narrow(dtype, gradients + i * (size_t)width, (size_t)width,
                       train_dtype_at(dtype, out, i * stride));
  }
}
