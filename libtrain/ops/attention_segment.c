/*
 * Attention between segments of a sequence: queries that a rank has, and keys and values of any
 * segment, which may come from another rank (Liu et al. 2023) or an earlier slice of tokens (Li et
 * al. 2021). What queries accumulate, and gradients, are kept for all heads between calls: head by
 * head, so that matrix products are those of whole sequences.
 */
#include <assert.h>
#include <string.h>

#include "libtrain/ops/attention_tiles.h"
#include "libtrain/ops/host.h"

/* Consecutive positions: rows `row` .. row + length - 1 of each sequence. */
typedef struct segment {
  int row, length, first;
} segment_t;

enum { SEGMENTS_MAX = 2 };

typedef struct segments {
  int count;
  segment_t of[SEGMENTS_MAX];
} segments_t;

/* Arguments of a call. */
typedef struct call {
  const train_exec_t *exec;
  const train_attention_segment_t *a;
  segments_t queries, keys;
  bool first;
  float *running;
  const void *out, *d_out;
  const float *log_sums;
  float *d_sums;
  attention_gradients_t gradients;
  void *stored; /* of attention_segment_finish */
  float *stored_sums;
  size_t scratch_per_thread; /* in floats */
} call_t;

static segments_t segments_of(const train_batch_t *batch) {
  if (batch->gap == 0) return (segments_t){1, {{0, batch->length, batch->first}}};
  int half = (batch->length + 1) / 2;
  return (segments_t){
      2, {{0, half, batch->first}, {half, batch->length - half, batch->first + half + batch->gap}}};
}

size_t train_host_attention_segment_scratch(const train_ops_sizes_t *sizes) {
  int keys = sizes->keys > sizes->length ? sizes->keys : sizes->length;
  size_t tiles = sizes->training ? 2 : 1;
  return (size_t)sizes->threads * tiles * attention_score_floats(sizes->length, keys);
}

/* Scores of the calling thread: the first or second of its tiles. */
static attention_scores_t scores_of(const call_t *c, int thread, int tile, int tiles) {
  size_t floats = attention_score_floats(c->a->queries.length, c->a->keys.length);
  return (attention_scores_t){c->exec->scratch + (size_t)(thread * tiles + tile) * floats,
                              attention_score_stride(c->a->keys.length)};
}

/* ---- parts of the arrays ---- */

/* Head `index` of all sequences' heads: from `row` on, in activations. */
static attention_matrix_t rows_of(const call_t *c, const train_head_rows_t *rows, int length,
                                  int index, int row) {
  int heads = c->a->heads, sequence = index / heads;
  int per_sequence = rows->sequence_rows > 0 ? rows->sequence_rows : length;
  size_t at = ((size_t)sequence * (size_t)per_sequence + (size_t)row) * (size_t)rows->stride +
              (size_t)(index % heads) * (size_t)c->a->head_width;
  return (attention_matrix_t){train_dtype_const_at(c->exec->dtype, rows->values, at), rows->stride};
}

/* Where a row of a head is in arrays with one value per row and head, head by head. */
static size_t head_row(int length, int index, int row) {
  return (size_t)index * (size_t)length + (size_t)row;
}

/* Where it is in log_sums, row by row. */
static size_t log_sum_at(const call_t *c, int index, int row) {
  size_t heads = (size_t)c->a->heads, sequence = (size_t)index / heads;
  return (sequence * (size_t)c->a->queries.length + (size_t)row) * heads + (size_t)index % heads;
}

/* What `rows` queries from `row` on have accumulated. */
static attention_running_t running_of(const call_t *c, int index, int row) {
  const train_batch_t *queries = &c->a->queries;
  size_t width = (size_t)c->a->head_width, at = head_row(queries->length, index, row);
  size_t all = (size_t)train_batch_rows(queries) * (size_t)c->a->heads;
  float *row_max = c->running + all * width;
  return (attention_running_t){
      .values = c->running + at * width, .row_max = row_max + at, .sums = row_max + all + at};
}

static attention_head_t head_of(const call_t *c, int index, int thread, const segment_t *queries,
                                const segment_t *keys) {
  const train_attention_segment_t *a = c->a;
  return (attention_head_t){.gemm = c->exec->gemm,
                            .dtype = c->exec->dtype,
                            .thread = thread,
                            .width = a->head_width,
                            .queries = queries->length,
                            .keys = keys->length,
                            .ahead = queries->first - keys->first,
                            .query = rows_of(c, &a->query, a->queries.length, index, queries->row),
                            .key = rows_of(c, &a->key, a->keys.length, index, keys->row),
                            .value = rows_of(c, &a->value, a->keys.length, index, keys->row)};
}

/* ---- tiles of queries ---- */

typedef struct query_tile {
  int index; /* of the head among those of all sequences */
  const segment_t *segment;
  int from, rows; /* in the segment */
} query_tile_t;

static int tile_count(const segments_t *segments) {
  int count = 0;
  for (int i = 0; i < segments->count; i++) count += attention_query_tiles(segments->of[i].length);
  return count;
}

/* Later queries see more keys and go first, so that threads finish together. */
static query_tile_t tile_of(const call_t *c, int task) {
  int tiles = tile_count(&c->queries), tile = tiles - 1 - task % tiles, i = 0;
  while (tile >= attention_query_tiles(c->queries.of[i].length)) {
    tile -= attention_query_tiles(c->queries.of[i++].length);
  }
  const segment_t *segment = &c->queries.of[i];
  int from = tile * ATTENTION_QUERIES;
  return (query_tile_t){.index = task / tiles,
                        .segment = segment,
                        .from = from,
                        .rows = attention_min(ATTENTION_QUERIES, segment->length - from)};
}

static void run_tiles(call_t *c, train_task_t *body) {
  int heads = c->a->queries.sequences * c->a->heads;
  train_pool_run(c->exec->pool, heads * tile_count(&c->queries), body, c);
}

/* ---- forward ---- */

static void forward_task(void *context, int task, int thread) {
  const call_t *c = context;
  const query_tile_t tile = tile_of(c, task);
  attention_running_t running = running_of(c, tile.index, tile.segment->row + tile.from);
  if (c->first) attention_start(&running, tile.rows);
  for (int i = 0; i < c->keys.count; i++) {
    const attention_head_t h = head_of(c, tile.index, thread, tile.segment, &c->keys.of[i]);
    attention_attend(&h, tile.from, tile.rows, scores_of(c, thread, 0, 1), &running);
  }
  if (running.empty) {
    memset(running.values, 0, (size_t)(tile.rows * c->a->head_width) * sizeof(float));
  }
}

void train_host_attention_segment_forward(const train_exec_t *exec,
                                          const train_attention_segment_t *segment, bool first,
                                          float *running) {
  call_t c = {.exec = exec,
              .a = segment,
              .queries = segments_of(&segment->queries),
              .keys = segments_of(&segment->keys),
              .first = first,
              .running = running};
  assert(segment->queries.sequences == segment->keys.sequences);
  run_tiles(&c, forward_task);
}

static void finish_task(void *context, int task, int thread) {
  const call_t *c = context;
  const query_tile_t tile = tile_of(c, task);
  int row = tile.segment->row + tile.from, width = c->a->heads * c->a->head_width;
  const attention_running_t running = running_of(c, tile.index, row);
  const train_head_rows_t out = {c->stored, width, 0};
  const attention_matrix_t rows = rows_of(c, &out, c->a->queries.length, tile.index, row);
  (void)thread;
  attention_finish(&running, c->exec->dtype, tile.rows, c->a->head_width, (void *)rows.values,
                   width, c->stored_sums + log_sum_at(c, tile.index, row), c->a->heads);
}

void train_host_attention_segment_finish(const train_exec_t *exec,
                                         const train_attention_segment_t *segment, float *running,
                                         void *out, float *log_sums) {
  call_t c = {.exec = exec,
              .a = segment,
              .queries = segments_of(&segment->queries),
              .running = running,
              .stored = out,
              .stored_sums = log_sums};
  run_tiles(&c, finish_task);
}

/* ---- backward ---- */

static void d_sums_task(void *context, int index, int thread) {
  const call_t *c = context;
  int length = c->a->queries.length, head_width = c->a->head_width;
  size_t width = (size_t)(c->a->heads * head_width);
  size_t row = (size_t)(index / c->a->heads) * (size_t)length;
  size_t column = (size_t)(index % c->a->heads * head_width);
  float *buffer = c->exec->scratch + (size_t)thread * 2 * (size_t)head_width;
  for (int i = 0; i < length; i++) {
    c->d_sums[head_row(length, index, i)] = attention_d_sum(
        c->exec->dtype, c->out, c->d_out, (row + (size_t)i) * width + column, head_width, buffer);
  }
}

void train_host_attention_segment_d_sums(const train_exec_t *exec,
                                         const train_attention_segment_t *segment, const void *out,
                                         const void *d_out, float *d_sums) {
  call_t c = {.exec = exec, .a = segment, .out = out, .d_out = d_out, .d_sums = d_sums};
  train_pool_run(exec->pool, segment->queries.sequences * segment->heads, d_sums_task, &c);
}

/* All pairs of a segment of queries with `keys` keys of a segment starting at `key`. */
static void backward_keys(const call_t *c, int index, int thread, const segment_t *segment, int key,
                          int keys) {
  const train_attention_segment_t *a = c->a;
  size_t width = (size_t)a->head_width, row = (size_t)(segment->row + key);
  size_t at = head_row(a->keys.length, index, (int)row) * width;
  const train_head_rows_t d_out = {c->d_out, a->heads * a->head_width, 0};
  attention_gradients_t own = {.key = c->gradients.key + at, .value = c->gradients.value + at};
  for (int i = 0; i < c->queries.count; i++) {
    const segment_t *queries = &c->queries.of[i];
    size_t query = head_row(a->queries.length, index, queries->row);
    attention_head_t h = head_of(c, index, thread, queries, segment);
    h.d_out = rows_of(c, &d_out, a->queries.length, index, queries->row);
    h.log_sums = c->log_sums + log_sum_at(c, index, queries->row);
    h.log_sums_stride = a->heads;
    h.d_sums = c->d_sums + query;
    own.query = c->gradients.query + query * width;
    attention_backward_keys(&h, key, keys, scores_of(c, thread, 0, 2), scores_of(c, thread, 1, 2),
                            &own);
  }
}

static void backward_task(void *context, int index, int thread) {
  const call_t *c = context;
  for (int i = 0; i < c->keys.count; i++) {
    const segment_t *segment = &c->keys.of[i];
    for (int key = 0; key < segment->length; key += ATTENTION_KEYS) {
      backward_keys(c, index, thread, segment, key,
                    attention_min(ATTENTION_KEYS, segment->length - key));
    }
  }
}

void train_host_attention_segment_backward(const train_exec_t *exec,
                                           const train_attention_segment_t *segment,
                                           const void *d_out, const float *log_sums,
                                           const float *d_sums, float *d_query, float *d_key,
                                           float *d_value) {
  call_t c = {.exec = exec,
              .a = segment,
              .queries = segments_of(&segment->queries),
              .keys = segments_of(&segment->keys),
              .d_out = d_out,
              .log_sums = log_sums,
              .d_sums = (float *)d_sums,
              .gradients = {d_query, d_key, d_value}};
  assert(segment->queries.sequences == segment->keys.sequences);
  train_pool_run(exec->pool, segment->queries.sequences * segment->heads, backward_task, &c);
}

/* ---- gradients ---- */

typedef struct store {
  train_dtype_t dtype;
  int length, heads, head_width, stride;
  const float *gradients;
  void *out;
} store_t;

static void store_task(void *context, int index, int thread) {
  const store_t *s = context;
  size_t row = (size_t)(index / s->heads) * (size_t)s->length, stride = (size_t)s->stride;
  size_t at = row * stride + (size_t)(index % s->heads * s->head_width);
  (void)thread;
  attention_store(s->dtype, s->gradients + head_row(s->length, index, 0) * (size_t)s->head_width,
                  s->length, s->head_width, train_dtype_at(s->dtype, s->out, at), stride);
}

void train_host_attention_segment_store(const train_exec_t *exec, const train_batch_t *batch,
                                        int heads, int head_width, const float *gradients,
                                        void *out, int stride) {
  store_t s = {exec->dtype, batch->length, heads, head_width, stride, gradients, out};
  train_pool_run(exec->pool, batch->sequences * heads, store_task, &s);
}
