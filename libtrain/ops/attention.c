/*
 * Causal attention of whole sequences, in tiles (attention_tiles.h). Forward has one task per tile
 * of queries, backward one per head. What they accumulate stays in the scratch memory of a thread,
 * which attention between segments would have to keep for all heads (attention_segment.c).
 */
#include <assert.h>
#include <string.h>

#include "libtrain/ops/attention_tiles.h"
#include "libtrain/ops/host.h"

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

/* ---- scratch of a thread ---- */

typedef struct forward_scratch {
  attention_scores_t scores;
  attention_running_t running; /* of a tile of queries */
} forward_scratch_t;

static size_t forward_floats(int length, int positions, int width) {
  size_t queries = (size_t)attention_query_tile(length);
  return attention_round_up(attention_score_floats(length, positions) + queries * (size_t)width +
                            2 * queries);
}

static forward_scratch_t forward_scratch(const attention_head_t *h, float *scratch) {
  forward_scratch_t s = {.scores = {scratch, attention_score_stride(h->keys)}};
  s.running.values = scratch + attention_score_floats(h->queries, h->keys);
  s.running.row_max =
      s.running.values + (size_t)attention_query_tile(h->queries) * (size_t)h->width;
  s.running.sums = s.running.row_max + attention_query_tile(h->queries);
  return s;
}

typedef struct backward_scratch {
  attention_scores_t weights, d_weights;
  attention_gradients_t gradients; /* [length, head_width] of queries, [ATTENTION_KEYS or less,
                                    * head_width] of keys and values */
  float *out_row, *d_sums;         /* [2, head_width], [length] */
} backward_scratch_t;

static size_t backward_floats(int length, int width) {
  size_t rows = (size_t)length + 2 * (size_t)attention_min(ATTENTION_KEYS, length) + 2;
  return attention_round_up(2 * attention_score_floats(length, length) + rows * (size_t)width +
                            (size_t)length);
}

static backward_scratch_t backward_scratch(int length, int head_width, float *scratch) {
  size_t tile = attention_score_floats(length, length), width = (size_t)head_width;
  size_t keys = (size_t)attention_min(ATTENTION_KEYS, length);
  int stride = attention_score_stride(length);
  backward_scratch_t s = {.weights = {scratch, stride}, .d_weights = {scratch + tile, stride}};
  s.gradients.query = scratch + 2 * tile;
  s.gradients.key = s.gradients.query + (size_t)length * width;
  s.gradients.value = s.gradients.key + keys * width;
  s.out_row = s.gradients.value + keys * width;
  s.d_sums = s.out_row + 2 * width;
  return s;
}

size_t train_host_attention_scratch(const train_ops_sizes_t *sizes) {
  int keys = sizes->keys > sizes->length ? sizes->keys : sizes->length;
  size_t forward = forward_floats(sizes->length, keys, sizes->head_width);
  size_t backward = sizes->training ? backward_floats(sizes->length, sizes->head_width) : 0;
  return (size_t)sizes->threads * (forward > backward ? forward : backward);
}

static float *scratch_of(const attention_t *a, int thread) {
  return a->exec->scratch + (size_t)thread * a->scratch_per_thread;
}

/* ---- parts of the arrays ---- */

/* A head of a sequence: rows of queries start at `row`, its columns at `column`. */
typedef struct place {
  size_t row, column, head;
} place_t;

static place_t place_of(const attention_t *a, int index) {
  return (place_t){.row = (size_t)(index / a->heads) * (size_t)a->batch->length,
                   .column = (size_t)(index % a->heads * a->head_width),
                   .head = (size_t)(index % a->heads)};
}

/* The offset in qkv of queries, keys or values (0, 1, 2) from a position on. */
static size_t input_offset(const attention_t *a, const place_t *place, int which, int position) {
  return ((place->row + (size_t)position) * 3 + (size_t)which) * (size_t)a->width + place->column;
}

static attention_matrix_t inputs_from(const attention_t *a, const place_t *place, int which,
                                      int position) {
  size_t at = input_offset(a, place, which, position);
  return (attention_matrix_t){train_dtype_const_at(a->exec->dtype, a->qkv, at), 3 * a->width};
}

/* The offset of a query in arrays like out. */
static size_t out_offset(const attention_t *a, const place_t *place, int query) {
  return (place->row + (size_t)query) * (size_t)a->width + place->column;
}

/* The offset of a query in log_sums. */
static size_t sum_offset(const attention_t *a, const place_t *place, int query) {
  return (place->row + (size_t)query) * (size_t)a->heads + place->head;
}

static attention_head_t head_of(const attention_t *a, const place_t *place, int thread) {
  const train_batch_t *batch = a->batch;
  return (attention_head_t){.gemm = a->exec->gemm,
                            .dtype = a->exec->dtype,
                            .thread = thread,
                            .width = a->head_width,
                            .queries = batch->length,
                            .keys = batch->first + batch->length,
                            .ahead = batch->first,
                            .query = inputs_from(a, place, 0, batch->first),
                            .key = inputs_from(a, place, 1, 0),
                            .value = inputs_from(a, place, 2, 0)};
}

/* ---- forward ---- */

/* Later queries see more keys and go first, so that threads finish together. */
static void forward_task(void *context, int task, int thread) {
  const attention_t *a = context;
  int tiles = attention_query_tiles(a->batch->length);
  int from = (tiles - 1 - task % tiles) * ATTENTION_QUERIES;
  const place_t place = place_of(a, task / tiles);
  const attention_head_t h = head_of(a, &place, thread);
  forward_scratch_t s = forward_scratch(&h, scratch_of(a, thread));
  int rows = attention_min(ATTENTION_QUERIES, h.queries - from);
  attention_start(&s.running, rows);
  attention_attend(&h, from, rows, s.scores, &s.running);
  attention_finish(&s.running, h.dtype, rows, h.width,
                   train_dtype_at(h.dtype, a->out, out_offset(a, &place, from)), a->width,
                   a->log_sums + sum_offset(a, &place, from), a->heads);
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
  assert(batch->gap == 0);
  a.scratch_per_thread = forward_floats(batch->length, batch->first + batch->length, head_width);
  train_pool_run(exec->pool, batch->sequences * heads * attention_query_tiles(batch->length),
                 forward_task, &a);
}

/* ---- backward ---- */

static void compute_d_sums(const attention_t *a, const place_t *place,
                           const backward_scratch_t *s) {
  for (int i = 0; i < a->batch->length; i++) {
    s->d_sums[i] = attention_d_sum(a->exec->dtype, a->out, a->d_out, out_offset(a, place, i),
                                   a->head_width, s->out_row);
  }
}

/* Writes the gradients of queries, keys or values (0, 1, 2) of `rows` positions from one on. */
static void store_gradients(const attention_t *a, const place_t *place, int which, int position,
                            int rows, const float *gradients) {
  train_dtype_t dtype = a->exec->dtype;
  attention_store(dtype, gradients, rows, a->head_width,
                  train_dtype_at(dtype, a->d_qkv, input_offset(a, place, which, position)),
                  3 * (size_t)a->width);
}

static void backward_task(void *context, int task, int thread) {
  const attention_t *a = context;
  const place_t place = place_of(a, task);
  attention_head_t h = head_of(a, &place, thread);
  const backward_scratch_t s = backward_scratch(h.queries, h.width, scratch_of(a, thread));
  const size_t row_bytes = (size_t)h.width * sizeof(float);
  h.d_out = (attention_matrix_t){train_dtype_const_at(h.dtype, a->d_out, out_offset(a, &place, 0)),
                                 a->width};
  h.log_sums = a->log_sums + sum_offset(a, &place, 0);
  h.log_sums_stride = a->heads;
  h.d_sums = s.d_sums;
  compute_d_sums(a, &place, &s);
  memset(s.gradients.query, 0, (size_t)h.queries * row_bytes);
  for (int key = 0; key < h.keys; key += ATTENTION_KEYS) {
    int keys = attention_min(ATTENTION_KEYS, h.keys - key);
    memset(s.gradients.key, 0, (size_t)keys * row_bytes);
    memset(s.gradients.value, 0, (size_t)keys * row_bytes);
    attention_backward_keys(&h, key, keys, s.weights, s.d_weights, &s.gradients);
    store_gradients(a, &place, 1, key, keys, s.gradients.key);
    store_gradients(a, &place, 2, key, keys, s.gradients.value);
  }
  store_gradients(a, &place, 0, 0, h.queries, s.gradients.query);
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
  assert(batch->first == 0 && batch->gap == 0);
  train_pool_run(exec->pool, batch->sequences * heads, backward_task, &a);
}
