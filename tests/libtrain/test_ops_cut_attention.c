/*
 * Attention of sequences that are cut: the parts together give what attention of whole sequences
 * gives, for zigzag segments whose keys and values travel around a ring, and for slices of tokens.
 */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "op_parts.h"

#define SEQUENCES 2
#define HEADS 3
#define HEAD_WIDTH 12
#define WIDTH (HEADS * HEAD_WIDTH)
#define RANKS_MAX 4

/* Attention of whole sequences: arrays of [SEQUENCES, length, ...]. */
typedef struct whole {
  train_dtype_t dtype;
  int length;
  void *qkv, *d_out, *out, *d_qkv;
  float *log_sums;
} whole_t;

static size_t rows_of(int length) {
  return (size_t)SEQUENCES * (size_t)length;
}

static void *zeros(size_t floats) {
  return calloc(floats + 1, sizeof(float));
}

static whole_t make_whole(train_dtype_t dtype, int length) {
  size_t rows = rows_of(length);
  return (whole_t){.dtype = dtype,
                   .length = length,
                   .qkv = parts_random(dtype, 1, 1, rows * 3 * WIDTH),
                   .d_out = parts_random(dtype, 2, 1, rows * WIDTH),
                   .out = zeros(rows * WIDTH),
                   .d_qkv = zeros(rows * 3 * WIDTH),
                   .log_sums = zeros(rows * HEADS)};
}

static void free_whole(whole_t *w) {
  free(w->qkv), free(w->d_out), free(w->out), free(w->d_qkv), free(w->log_sums);
}

static void run_whole(const train_exec_t *exec, const whole_t *w) {
  const train_batch_t batch = {.sequences = SEQUENCES, .length = w->length};
  train_ops_host.attention_forward(exec, &batch, w->qkv, HEADS, WIDTH, w->out, w->log_sums);
  train_ops_host.attention_backward(exec, &batch, w->d_out, w->qkv, w->out, w->log_sums, HEADS,
                                    WIDTH, w->d_qkv);
}

static void check_whole(const whole_t *got, const whole_t *expected) {
  size_t rows = rows_of(expected->length);
  parts_check("out", got->dtype, 1, got->out, expected->out, rows * WIDTH);
  parts_check("d_qkv", got->dtype, 1, got->d_qkv, expected->d_qkv, rows * 3 * WIDTH);
  parts_check_floats("log_sums", got->dtype, 1, got->log_sums, expected->log_sums, rows * HEADS);
}

/* ---- ring of zigzag segments ---- */

/* What a rank has: two segments of each sequence. */
typedef struct rank {
  train_batch_t batch;
  void *qkv, *d_out, *out, *d_qkv;
  float *log_sums, *running, *d_sums, *d_query, *d_key, *d_value;
} rank_t;

/* Copies a rank's rows of [SEQUENCES, length, width] from or to the whole array. */
static void move_rows(const whole_t *w, const rank_t *rank, size_t bytes, void *whole, void *own,
                      bool to_whole) {
  for (int row = 0; row < train_batch_rows(&rank->batch); row++) {
    int sequence = row / rank->batch.length, position = train_batch_position(&rank->batch, row);
    char *there = (char *)whole + (size_t)(sequence * w->length + position) * bytes;
    char *here = (char *)own + (size_t)row * bytes;
    memcpy(to_whole ? there : here, to_whole ? here : there, bytes);
  }
}

static rank_t make_rank(const whole_t *w, int ranks, int index) {
  int half = w->length / (2 * ranks);
  size_t rows = rows_of(2 * half), element = train_dtype_bytes(w->dtype);
  rank_t rank = {.batch = {.sequences = SEQUENCES,
                           .length = 2 * half,
                           .first = index * half,
                           .gap = 2 * (ranks - 1 - index) * half},
                 .qkv = zeros(rows * 3 * WIDTH),
                 .d_out = zeros(rows * WIDTH),
                 .out = zeros(rows * WIDTH),
                 .d_qkv = zeros(rows * 3 * WIDTH),
                 .log_sums = zeros(rows * HEADS),
                 .d_sums = zeros(rows * HEADS),
                 .d_query = zeros(rows * WIDTH),
                 .d_key = zeros(rows * WIDTH),
                 .d_value = zeros(rows * WIDTH)};
  rank.running =
      malloc(train_attention_running_floats(&rank.batch, HEADS, HEAD_WIDTH) * sizeof(float));
  move_rows(w, &rank, 3 * WIDTH * element, w->qkv, rank.qkv, false);
  move_rows(w, &rank, WIDTH * element, w->d_out, rank.d_out, false);
  return rank;
}

static void free_rank(rank_t *r) {
  free(r->qkv), free(r->d_out), free(r->out), free(r->d_qkv), free(r->log_sums), free(r->running);
  free(r->d_sums), free(r->d_query), free(r->d_key), free(r->d_value);
}

static train_attention_segment_t segment_of(train_dtype_t dtype, const rank_t *queries,
                                            const rank_t *keys) {
  return (train_attention_segment_t){
      .queries = queries->batch,
      .keys = keys->batch,
      .heads = HEADS,
      .head_width = HEAD_WIDTH,
      .query = {queries->qkv, 3 * WIDTH, 0},
      .key = {train_dtype_at(dtype, keys->qkv, WIDTH), 3 * WIDTH, 0},
      .value = {train_dtype_at(dtype, keys->qkv, 2 * (size_t)WIDTH), 3 * WIDTH, 0}};
}

/* The queries of rank `index`, with its own keys first, then those that arrive. */
static void attend(const train_exec_t *exec, const rank_t *ranks, int count, int index) {
  const rank_t *own = &ranks[index];
  const train_attention_segment_t self = segment_of(exec->dtype, own, own);
  for (int step = 0; step < count; step++) {
    const train_attention_segment_t segment =
        segment_of(exec->dtype, own, &ranks[(index - step + count) % count]);
    train_ops_host.attention_segment_forward(exec, &segment, step == 0, own->running);
  }
  train_ops_host.attention_segment_finish(exec, &self, own->running, own->out, own->log_sums);
  train_ops_host.attention_segment_d_sums(exec, &self, own->out, own->d_out, own->d_sums);
  for (int step = 0; step < count; step++) {
    const rank_t *keys = &ranks[(index - step + count) % count];
    const train_attention_segment_t segment = segment_of(exec->dtype, own, keys);
    train_ops_host.attention_segment_backward(exec, &segment, own->d_out, own->log_sums,
                                              own->d_sums, own->d_query, keys->d_key,
                                              keys->d_value);
  }
}

static void store_rank(const train_exec_t *exec, const rank_t *rank) {
  const float *const gradients[] = {rank->d_query, rank->d_key, rank->d_value};
  for (size_t i = 0; i < 3; i++) {
    train_ops_host.attention_segment_store(exec, &rank->batch, HEADS, HEAD_WIDTH, gradients[i],
                                           train_dtype_at(exec->dtype, rank->d_qkv, i * WIDTH),
                                           3 * WIDTH);
  }
}

static void run_ring(const train_exec_t *exec, const whole_t *w, int count) {
  rank_t ranks[RANKS_MAX];
  size_t element = train_dtype_bytes(exec->dtype);
  for (int i = 0; i < count; i++) ranks[i] = make_rank(w, count, i);
  for (int i = 0; i < count; i++) attend(exec, ranks, count, i);
  for (int i = 0; i < count; i++) {
    store_rank(exec, &ranks[i]);
    move_rows(w, &ranks[i], WIDTH * element, w->out, ranks[i].out, true);
    move_rows(w, &ranks[i], 3 * WIDTH * element, w->d_qkv, ranks[i].d_qkv, true);
    move_rows(w, &ranks[i], HEADS * sizeof(float), w->log_sums, ranks[i].log_sums, true);
    free_rank(&ranks[i]);
  }
}

/* ---- slices of tokens ---- */

/* A sequence whose slices are computed one after the other; arrays are the sequence's own. */
typedef struct sliced {
  train_dtype_t dtype;
  train_batch_t all;
  char *qkv, *d_qkv, *out, *d_out; /* [length, WIDTH or 3 * WIDTH] elements */
  float *log_sums, *running, *d_sums, *d_query, *d_key, *d_value;
} sliced_t;

static sliced_t make_sliced(const whole_t *w, int sequence) {
  size_t row = (size_t)(sequence * w->length), length = (size_t)w->length;
  size_t element = train_dtype_bytes(w->dtype);
  return (sliced_t){.dtype = w->dtype,
                    .all = {.sequences = 1, .length = w->length},
                    .qkv = (char *)w->qkv + row * 3 * WIDTH * element,
                    .d_qkv = (char *)w->d_qkv + row * 3 * WIDTH * element,
                    .out = (char *)w->out + row * WIDTH * element,
                    .d_out = (char *)w->d_out + row * WIDTH * element,
                    .log_sums = w->log_sums + row * HEADS,
                    .running = zeros(length * HEADS * (HEAD_WIDTH + 2)),
                    .d_sums = zeros(length * HEADS),
                    .d_query = zeros(length * WIDTH),
                    .d_key = zeros(length * WIDTH),
                    .d_value = zeros(length * WIDTH)};
}

static void free_sliced(sliced_t *s) {
  free(s->running), free(s->d_sums), free(s->d_query), free(s->d_key), free(s->d_value);
}

/* Positions first .. end - 1, which read keys and values of all earlier ones where they lie; later
 * keys are not seen. */
static train_attention_segment_t slice_of(const sliced_t *s, int first, int end) {
  size_t row = (size_t)first * 3 * WIDTH;
  return (train_attention_segment_t){
      .queries = {.sequences = 1, .length = end - first, .first = first},
      .keys = s->all,
      .heads = HEADS,
      .head_width = HEAD_WIDTH,
      .query = {train_dtype_at(s->dtype, s->qkv, row), 3 * WIDTH, 0},
      .key = {train_dtype_at(s->dtype, s->qkv, WIDTH), 3 * WIDTH, 0},
      .value = {train_dtype_at(s->dtype, s->qkv, 2 * WIDTH), 3 * WIDTH, 0}};
}

static void store(const train_exec_t *exec, const sliced_t *s, const train_batch_t *batch,
                  size_t which, const float *gradients) {
  size_t at = ((size_t)batch->first * 3 + which) * WIDTH;
  train_ops_host.attention_segment_store(exec, batch, HEADS, HEAD_WIDTH, gradients,
                                         train_dtype_at(s->dtype, s->d_qkv, at), 3 * WIDTH);
}

static void slice_forward(const train_exec_t *exec, const sliced_t *s, int first, int end) {
  const train_attention_segment_t slice = slice_of(s, first, end);
  size_t row = (size_t)first;
  train_ops_host.attention_segment_forward(exec, &slice, true, s->running);
  train_ops_host.attention_segment_finish(exec, &slice, s->running,
                                          train_dtype_at(s->dtype, s->out, row * WIDTH),
                                          s->log_sums + row * HEADS);
}

static void slice_backward(const train_exec_t *exec, const sliced_t *s, int first, int end) {
  const train_attention_segment_t slice = slice_of(s, first, end);
  size_t row = (size_t)first;
  const void *out = train_dtype_at(s->dtype, s->out, row * WIDTH);
  const void *d_out = train_dtype_at(s->dtype, s->d_out, row * WIDTH);
  memset(s->d_query, 0, (size_t)(end - first) * WIDTH * sizeof(float));
  train_ops_host.attention_segment_d_sums(exec, &slice, out, d_out, s->d_sums);
  train_ops_host.attention_segment_backward(exec, &slice, d_out, s->log_sums + row * HEADS,
                                            s->d_sums, s->d_query, s->d_key, s->d_value);
  store(exec, s, &slice.queries, 0, s->d_query);
}

/* Backward visits slices in reverse order and adds to the gradients of earlier keys. */
static void run_slices(const train_exec_t *exec, const whole_t *w, const int *ends, int count) {
  for (int sequence = 0; sequence < SEQUENCES; sequence++) {
    sliced_t s = make_sliced(w, sequence);
    for (int i = 0; i < count; i++) slice_forward(exec, &s, i > 0 ? ends[i - 1] : 0, ends[i]);
    for (int i = count - 1; i >= 0; i--) {
      slice_backward(exec, &s, i > 0 ? ends[i - 1] : 0, ends[i]);
    }
    store(exec, &s, &s.all, 1, s.d_key);
    store(exec, &s, &s.all, 2, s.d_value);
    free_sliced(&s);
  }
}

/* ---- tests ---- */

/* An engine with scratch of exactly the size that the operators ask for, followed by guards. */
enum { GUARDS = 64 };
typedef struct engine {
  train_exec_t exec;
  size_t scratch;
} engine_t;

static engine_t open_engine(train_dtype_t dtype, int threads, int length, int keys) {
  const train_ops_sizes_t sizes = {.rows = 1,
                                   .width = 1,
                                   .length = length,
                                   .keys = keys,
                                   .head_width = HEAD_WIDTH,
                                   .vocabulary = 1,
                                   .threads = threads,
                                   .dtype = dtype,
                                   .training = true};
  engine_t e = {.exec.dtype = dtype, .scratch = train_ops_host.scratch_floats(&sizes)};
  e.exec.scratch = malloc((e.scratch + GUARDS) * sizeof(float));
  memset(e.exec.scratch, 0xff, (e.scratch + GUARDS) * sizeof(float));
  cr_assert_eq(train_pool_create(threads, &e.exec.pool), COLL_OK);
  cr_assert_eq(train_gemm_create(e.exec.pool, &e.exec.gemm), COLL_OK);
  return e;
}

static void close_engine(engine_t *e) {
  for (size_t i = 0; i < GUARDS; i++) cr_assert(isnan(e->exec.scratch[e->scratch + i]));
  train_gemm_destroy(e->exec.gemm);
  train_pool_destroy(e->exec.pool);
  free(e->exec.scratch);
}

static void check_ring(train_dtype_t dtype, int half, int count) {
  int length = 2 * count * half;
  whole_t whole = make_whole(dtype, length), cut = make_whole(dtype, length),
          again = make_whole(dtype, length);
  engine_t engines[] = {open_engine(dtype, 1, length, length), open_engine(dtype, 1, 2 * half, 0),
                        open_engine(dtype, 3, 2 * half, 0)};
  run_whole(&engines[0].exec, &whole);
  run_ring(&engines[1].exec, &cut, count);
  run_ring(&engines[2].exec, &again, count);
  check_whole(&cut, &whole);
  size_t bytes = rows_of(length) * WIDTH * train_dtype_bytes(dtype);
  cr_assert_arr_eq(cut.out, again.out, bytes);
  cr_assert_arr_eq(cut.d_qkv, again.d_qkv, 3 * bytes);
  for (int i = 0; i < 3; i++) close_engine(&engines[i]);
  free_whole(&whole), free_whole(&cut), free_whole(&again);
}

/* Segments of one position, of less than a tile, and of several tiles of queries and of keys. */
Test(attention, of_zigzag_segments) {
  for (int dtype = 0; dtype < TRAIN_DTYPES; dtype++) {
    for (int count = 1; count <= RANKS_MAX; count++) {
      check_ring((train_dtype_t)dtype, 1, count);
      check_ring((train_dtype_t)dtype, 37, count);
      if (count <= 2) check_ring((train_dtype_t)dtype, 290, count);
    }
  }
}

static void check_slices(train_dtype_t dtype, const int *ends, int count, int longest) {
  int length = ends[count - 1];
  whole_t whole = make_whole(dtype, length), cut = make_whole(dtype, length);
  engine_t engines[] = {open_engine(dtype, 1, length, length),
                        open_engine(dtype, 2, longest, length)};
  run_whole(&engines[0].exec, &whole);
  run_slices(&engines[1].exec, &cut, ends, count);
  check_whole(&cut, &whole);
  if (count == 1) {
    size_t bytes = rows_of(length) * WIDTH * train_dtype_bytes(dtype);
    cr_assert_arr_eq(cut.out, whole.out, bytes, "one segment has other bits than no segment");
    cr_assert_arr_eq(cut.d_qkv, whole.d_qkv, 3 * bytes);
  }
  for (int i = 0; i < 2; i++) close_engine(&engines[i]);
  free_whole(&whole), free_whole(&cut);
}

Test(attention, of_slices_of_tokens) {
  const int one[] = {300}, small[] = {1, 2, 7}, uneven[] = {130, 131, 420, 450};
  for (int dtype = 0; dtype < TRAIN_DTYPES; dtype++) {
    check_slices((train_dtype_t)dtype, one, 1, 300);
    check_slices((train_dtype_t)dtype, small, 3, 5);
    check_slices((train_dtype_t)dtype, uneven, 4, 289);
  }
}
