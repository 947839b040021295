/*
 * Causal attention, in tiles of at most QUERIES x KEYS positions of one head of one sequence.
 * Forward, with one task per tile of queries, uses the online softmax: for each query it keeps the
 * maximum score so far and, relative to it, the sum of exponentials and of weighted values, which
 * are rescaled when the maximum grows. Backward, with one task per head, recomputes the weights of
 * each tile from the scores and the logarithm of the final sum (Dao et al. 2022).
 *
 * Sums are float32. With a narrow element type, weights and gradients of scores are rounded as
 * factors of products only; they are converted in place, so that rows of both types start at the
 * same addresses.
 */
#include <math.h>
#include <string.h>

#include "libtrain/common/vector.h"
#include "libtrain/gemm/gemm.h"
#include "libtrain/ops/host.h"

#define QUERIES 128
#define KEYS 256

/* Arguments of a call. */
typedef struct attention {
  const train_exec_t *exec;
  const train_batch_t *batch;
  int heads, width, head_width;
  const void *qkv;
  void *out;
  float *log_sums;
  const void *d_out;
  void *d_qkv;
  size_t scratch_per_thread; /* in floats */
} attention_t;

/* A matrix of the operator's element type: rows are `stride` elements apart. */
typedef struct matrix {
  const void *values;
  int stride;
} matrix_t;

/* Scores of a tile, or what is computed from them, as float32 or converted in place. */
typedef struct scores {
  float *values;
  int stride; /* in floats */
} scores_t;

/* One head of one sequence, processed by pool thread `thread`. Queries start at position `first`.
 * `column` is the offset of the head's queries in a row of qkv. */
typedef struct head {
  const attention_t *call;
  int thread, queries, first, width;
  float scale; /* of scores */
  train_dtype_t dtype;
  size_t row, column; /* of the first position */
  float *log_sums;    /* `heads` apart */
} head_t;

static int min_int(int a, int b) {
  return a < b ? a : b;
}

static size_t round_up(size_t floats) {
  return (floats + 15) / 16 * 16;
}

/* ---- scratch of a thread ---- */

static int query_tile(int length) {
  return min_int(QUERIES, length);
}

/* The row stride of scores. Not a power of 2, which would cause cache conflicts. */
static int score_stride(int positions) {
  return (int)round_up((size_t)min_int(KEYS, positions)) + 16;
}

static size_t score_floats(int length, int positions) {
  return (size_t)query_tile(length) * (size_t)score_stride(positions);
}

typedef struct forward_scratch {
  scores_t scores;
  float *values;         /* [query_tile, head_width] */
  float *row_max, *sums; /* [query_tile] */
} forward_scratch_t;

static size_t forward_floats(int length, int positions, int width) {
  size_t queries = (size_t)query_tile(length);
  return round_up(score_floats(length, positions) + queries * (size_t)width + 2 * queries);
}

static forward_scratch_t forward_scratch(const head_t *h, float *scratch) {
  int positions = h->first + h->queries;
  forward_scratch_t s = {.scores = {scratch, score_stride(positions)}};
  s.values = scratch + score_floats(h->queries, positions);
  s.row_max = s.values + (size_t)query_tile(h->queries) * (size_t)h->width;
  s.sums = s.row_max + query_tile(h->queries);
  return s;
}

/* d_sums[i] is the dot product of query i's output and the gradient of that output. */
typedef struct backward_scratch {
  scores_t weights, d_weights;
  float *d_query;          /* [length, head_width] */
  float *d_key, *d_value;  /* [KEYS or less, head_width] */
  float *out_row, *d_sums; /* [2, head_width], [length] */
} backward_scratch_t;

static size_t backward_floats(int length, int width) {
  size_t rows = (size_t)length + 2 * (size_t)min_int(KEYS, length) + 2;
  return round_up(2 * score_floats(length, length) + rows * (size_t)width + (size_t)length);
}

static backward_scratch_t backward_scratch(const head_t *h, float *scratch) {
  size_t tile = score_floats(h->queries, h->queries), width = (size_t)h->width;
  int stride = score_stride(h->queries);
  backward_scratch_t s = {.weights = {scratch, stride}, .d_weights = {scratch + tile, stride}};
  s.d_query = scratch + 2 * tile;
  s.d_key = s.d_query + (size_t)h->queries * width;
  s.d_value = s.d_key + (size_t)min_int(KEYS, h->queries) * width;
  s.out_row = s.d_value + (size_t)min_int(KEYS, h->queries) * width;
  s.d_sums = s.out_row + 2 * width;
  return s;
}

size_t train_host_attention_scratch(const train_ops_sizes_t *sizes) {
  int width = sizes->width / sizes->heads;
  size_t forward = forward_floats(sizes->length, sizes->length, width);
  size_t backward = sizes->training ? backward_floats(sizes->length, width) : 0;
  return (size_t)sizes->threads * (forward > backward ? forward : backward);
}

/* ---- parts of the arrays ---- */

static head_t head_of(const attention_t *a, int index, int thread) {
  const train_batch_t *batch = a->batch;
  size_t row = (size_t)(index / a->heads) * (size_t)batch->length;
  return (head_t){.call = a,
                  .thread = thread,
                  .queries = batch->length,
                  .first = batch->first,
                  .width = a->head_width,
                  .scale = 1.0f / sqrtf((float)a->head_width),
                  .dtype = a->exec->dtype,
                  .row = row,
                  .column = (size_t)(index % a->heads * a->head_width),
                  .log_sums = a->log_sums + row * (size_t)a->heads + index % a->heads};
}

static float *scratch_of(const attention_t *a, int thread) {
  return a->exec->scratch + (size_t)thread * a->scratch_per_thread;
}

/* The offset of a position's query in qkv; its key is `width` behind it, its value 2 * width. */
static size_t query_offset(const head_t *h, int position) {
  return (h->row + (size_t)position) * 3 * (size_t)h->call->width + h->column;
}

/* Queries, keys or values (0, 1, 2) from a position on. */
static matrix_t inputs_from(const head_t *h, int which, int position) {
  size_t at = query_offset(h, position) + (size_t)which * (size_t)h->call->width;
  return (matrix_t){train_dtype_const_at(h->dtype, h->call->qkv, at), 3 * h->call->width};
}

/* The offset of a query's row in arrays like out; queries count from 0. */
static size_t out_offset(const head_t *h, int query) {
  return (h->row + (size_t)query) * (size_t)h->call->width + h->column;
}

static matrix_t d_out_from(const head_t *h, int query) {
  return (matrix_t){train_dtype_const_at(h->dtype, h->call->d_out, out_offset(h, query)),
                    h->call->width};
}

/* The scores after their conversion. */
static matrix_t converted(const head_t *h, scores_t scores) {
  int per_float = (int)(sizeof(float) / train_dtype_bytes(h->dtype));
  return (matrix_t){scores.values, scores.stride * per_float};
}

static float *score_row(scores_t scores, int row) {
  return scores.values + (size_t)row * (size_t)scores.stride;
}

/* ---- products ---- */

/* out[rows, columns] = a[rows, head_width] * b[columns, head_width]^T. */
static void multiply_rows(const head_t *h, int rows, int columns, matrix_t a, matrix_t b,
                          scores_t out) {
  train_gemm_run_serial(h->call->exec->gemm, h->thread,
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

/* out[rows, head_width] (+)= a * b[depth, head_width], where a is [rows, depth], or [depth, rows]
 * if it is transposed. */
static void multiply_weighted(const head_t *h, int rows, int depth, matrix_t a, bool a_transposed,
                              matrix_t b, bool add, float *out) {
  train_gemm_run_serial(h->call->exec->gemm, h->thread,
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
static void forward_tile(const head_t *h, int from, int rows, int key, int keys,
                         const forward_scratch_t *s) {
  multiply_rows(h, rows, keys, inputs_from(h, 0, h->first + from), inputs_from(h, 1, key),
                s->scores);
  for (int i = 0; i < rows; i++) {
    float *row = score_row(s->scores, i);
    int visible = min_int(keys, h->first + from + i + 1 - key);
    if (visible <= 0) {
      memset(row, 0, (size_t)keys * sizeof *row);
      continue;
    }
    float rescale = update_softmax(row, visible, keys, h->scale, &s->row_max[i], &s->sums[i]);
    convert_row(h->dtype, row, keys);
    if (key > 0 && rescale != 1.0f) {
      scale_row(s->values + (size_t)i * (size_t)h->width, h->width, rescale);
    }
  }
  multiply_weighted(h, rows, keys, converted(h, s->scores), false, inputs_from(h, 2, key), key > 0,
                    s->values);
}

static void forward_rows(const head_t *h, int from, int rows, const forward_scratch_t *s) {
  int visible = h->first + from + rows; /* keys visible to the last query */
  for (int i = 0; i < rows; i++) s->row_max[i] = -INFINITY, s->sums[i] = 0;
  for (int key = 0; key < visible; key += KEYS) {
    forward_tile(h, from, rows, key, min_int(KEYS, visible - key), s);
  }
  for (int i = 0; i < rows; i++) {
    float *values = s->values + (size_t)i * (size_t)h->width;
    scale_row(values, h->width, 1.0f / s->sums[i]);
    train_dtype_narrow(h->dtype, values, (size_t)h->width,
                       train_dtype_at(h->dtype, h->call->out, out_offset(h, from + i)));
    h->log_sums[(size_t)(from + i) * (size_t)h->call->heads] = s->row_max[i] + logf(s->sums[i]);
  }
}

static int query_tiles(const train_batch_t *batch) {
  return (batch->length + QUERIES - 1) / QUERIES;
}

/* Later queries see more keys and go first, so that threads finish together. */
static void forward_task(void *context, int task, int thread) {
  const attention_t *a = context;
  int tiles = query_tiles(a->batch), from = (tiles - 1 - task % tiles) * QUERIES;
  const head_t h = head_of(a, task / tiles, thread);
  const forward_scratch_t s = forward_scratch(&h, scratch_of(a, thread));
  forward_rows(&h, from, min_int(QUERIES, h.queries - from), &s);
}

void train_host_attention_forward(const train_exec_t *exec, const train_batch_t *batch,
                                  const void *qkv, int heads, int width, void *out,
                                  float *log_sums) {
  int head_width = width / heads;
  attention_t a = {.exec = exec,
                   .batch = batch,
                   .heads = heads,
                   .width = width,
                   .head_width = head_width,
                   .qkv = qkv,
                   .out = out,
                   .log_sums = log_sums};
  a.scratch_per_thread = forward_floats(batch->length, batch->first + batch->length, head_width);
  train_pool_run(exec->pool, batch->sequences * heads * query_tiles(batch), forward_task, &a);
}

/* ---- backward ---- */

TRAIN_VECTORIZED
static float dot(const float *a, const float *b, int count) {
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int i = 0; i < count; i++) sum += a[i] * b[i];
  return sum;
}

static void compute_d_sums(const head_t *h, const backward_scratch_t *s) {
  size_t width = (size_t)h->width;
  for (int i = 0; i < h->queries; i++) {
    size_t at = out_offset(h, i);
    const float *out = train_dtype_read(h->dtype, h->call->out, at, width, s->out_row);
    const float *d_out = train_dtype_read(h->dtype, h->call->d_out, at, width, s->out_row + width);
    s->d_sums[i] = dot(out, d_out, h->width);
  }
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

/* Adds the contributions of `rows` queries starting at `from` with `keys` keys starting at
 * `key`. */
static void backward_tile(const head_t *h, int from, int rows, int key, int keys,
                          const backward_scratch_t *s) {
  const matrix_t queries = inputs_from(h, 0, from), d_out = d_out_from(h, from);
  const matrix_t weights = converted(h, s->weights), d_weights = converted(h, s->d_weights);
  multiply_rows(h, rows, keys, queries, inputs_from(h, 1, key), s->weights);
  multiply_rows(h, rows, keys, d_out, inputs_from(h, 2, key), s->d_weights);
  for (int i = 0; i < rows; i++) {
    float *row = score_row(s->weights, i), *d_row = score_row(s->d_weights, i);
    scores_to_gradients(row, d_row, min_int(keys, from + i + 1 - key), keys, h->scale,
                        h->log_sums[(size_t)(from + i) * (size_t)h->call->heads],
                        s->d_sums[from + i]);
    convert_row(h->dtype, row, keys);
    convert_row(h->dtype, d_row, keys);
  }
  multiply_weighted(h, keys, rows, weights, true, d_out, true, s->d_value);
  multiply_weighted(h, keys, rows, d_weights, true, queries, true, s->d_key);
  multiply_weighted(h, rows, keys, d_weights, false, inputs_from(h, 1, key), true,
                    s->d_query + (size_t)from * (size_t)h->width);
}

/* Writes the gradients of queries, keys or values (0, 1, 2) of `rows` positions from one on. */
static void store_gradients(const head_t *h, int which, int position, int rows,
                            const float *gradients) {
  for (int i = 0; i < rows; i++) {
    size_t at = query_offset(h, position + i) + (size_t)which * (size_t)h->call->width;
    train_dtype_narrow(h->dtype, gradients + (size_t)i * (size_t)h->width, (size_t)h->width,
                       train_dtype_at(h->dtype, h->call->d_qkv, at));
  }
}

_Static_assert(KEYS % QUERIES == 0,
               "the first tile of queries to which a tile of keys is visible "
               "starts with it");

static void backward_task(void *context, int task, int thread) {
  const attention_t *a = context;
  const head_t h = head_of(a, task, thread);
  const backward_scratch_t s = backward_scratch(&h, scratch_of(a, thread));
  compute_d_sums(&h, &s);
  memset(s.d_query, 0, (size_t)h.queries * (size_t)h.width * sizeof *s.d_query);
  for (int key = 0; key < h.queries; key += KEYS) {
    int keys = min_int(KEYS, h.queries - key);
    size_t bytes = (size_t)keys * (size_t)h.width * sizeof *s.d_key;
    memset(s.d_key, 0, bytes);
    memset(s.d_value, 0, bytes);
    for (int from = key; from < h.queries; from += QUERIES) {
      int rows = min_int(QUERIES, h.queries - from);
      backward_tile(&h, from, rows, key, min_int(keys, from + rows - key), &s);
    }
    store_gradients(&h, 1, key, keys, s.d_key);
    store_gradients(&h, 2, key, keys, s.d_value);
  }
  store_gradients(&h, 0, 0, h.queries, s.d_query);
}

void train_host_attention_backward(const train_exec_t *exec, const train_batch_t *batch,
                                   const void *d_out, const void *qkv, const void *out,
                                   const float *log_sums, int heads, int width, void *d_qkv) {
  int head_width = width / heads;
  attention_t a = {.exec = exec,
                   .batch = batch,
                   .heads = heads,
                   .width = width,
                   .head_width = head_width,
                   .qkv = qkv,
                   .out = (void *)out,
                   .log_sums = (float *)log_sums,
                   .d_out = d_out,
                   .d_qkv = d_qkv,
                   .scratch_per_thread = backward_floats(batch->length, head_width)};
  train_pool_run(exec->pool, batch->sequences * heads, backward_task, &a);
}
