/*
 * Token and position embeddings: sums of rows of two tables, of which the token table may be a part
 * of the vocabulary's. Backward scatters the gradients of rows. It is divided by columns, so that
 * rows with the same token are added in a fixed order.
 */
#include <string.h>

#include "libtrain/common/vector.h"
#include "libtrain/ops/host.h"

#define ROWS_PER_TASK 16
#define COLUMNS_PER_TASK 64
#define BLOCK 512 /* elements converted at a time */

typedef struct embedding {
  train_dtype_t dtype;
  const train_batch_t *batch;
  const int32_t *tokens;
  train_vocabulary_t vocabulary;
  int width;
  const void *token_table, *position_table;
  void *out;
  const void *d_out;
  int context;
  bool overwrite;
  float *d_token_table, *d_position_table;
} embedding_t;

static int min_int(int a, int b) {
  return a < b ? a : b;
}

static size_t position_of(const embedding_t *e, int row) {
  return (size_t)train_batch_position(e->batch, row);
}

static bool has_token(const embedding_t *e, int row) {
  int token = e->tokens[row] - e->vocabulary.first;
  return token >= 0 && token < e->vocabulary.count;
}

/* Where a row's token begins in the token table. */
static size_t token_offset(const embedding_t *e, int row) {
  return (size_t)(e->tokens[row] - e->vocabulary.first) * (size_t)e->width;
}

TRAIN_VECTORIZED
static void add(const float *a, const float *b, int count, float *restrict sum) {
  for (int i = 0; i < count; i++) sum[i] = a[i] + b[i];
}

/* A row of both tables. */
static void add_rows(const embedding_t *e, int row) {
  float token[BLOCK], position[BLOCK], sum[BLOCK];
  size_t width = (size_t)e->width, token_at = token_offset(e, row),
         position_at = position_of(e, row) * width;
  for (int from = 0; from < e->width; from += BLOCK) {
    size_t count = (size_t)min_int(BLOCK, e->width - from), column = (size_t)from;
    void *out = train_dtype_at(e->dtype, e->out, (size_t)row * width + column);
    bool wide = e->dtype == TRAIN_FLOAT32;
    add(train_dtype_read(e->dtype, e->token_table, token_at + column, count, token),
        train_dtype_read(e->dtype, e->position_table, position_at + column, count, position),
        (int)count, wide ? out : sum);
    if (!wide) train_dtype_narrow(e->dtype, sum, count, out);
  }
}

static void embed_row(const embedding_t *e, int row) {
  size_t width = (size_t)e->width, bytes = width * train_dtype_bytes(e->dtype);
  void *out = train_dtype_at(e->dtype, e->out, (size_t)row * width);
  bool token = has_token(e, row), position = e->position_table != NULL;
  if (token && position) {
    add_rows(e, row);
  } else if (token) {
    memcpy(out, train_dtype_const_at(e->dtype, e->token_table, token_offset(e, row)), bytes);
  } else if (position) {
    size_t at = position_of(e, row) * width;
    memcpy(out, train_dtype_const_at(e->dtype, e->position_table, at), bytes);
  } else {
    memset(out, 0, bytes);
  }
}

static void forward_task(void *context, int task, int thread) {
  const embedding_t *e = context;
  int from = task * ROWS_PER_TASK, to = min_int(from + ROWS_PER_TASK, train_batch_rows(e->batch));
  (void)thread;
  for (int row = from; row < to; row++) embed_row(e, row);
}

void train_host_embedding_forward(const train_exec_t *exec, const train_batch_t *batch,
                                  const int32_t *tokens, train_vocabulary_t vocabulary,
                                  const void *token_table, const void *position_table, int width,
                                  void *out) {
  embedding_t e = {.dtype = exec->dtype,
                   .batch = batch,
                   .tokens = tokens,
                   .vocabulary = vocabulary,
                   .width = width,
                   .token_table = token_table,
                   .position_table = position_table,
                   .out = out};
  int tasks = (train_batch_rows(batch) + ROWS_PER_TASK - 1) / ROWS_PER_TASK;
  train_pool_run(exec->pool, tasks, forward_task, &e);
}

TRAIN_VECTORIZED
static void add_to_both(const float *d, int count, float *restrict token,
                        float *restrict position) {
  for (int i = 0; i < count; i++) {
    token[i] += d[i];
    position[i] += d[i];
  }
}

TRAIN_VECTORIZED
static void add_to_one(const float *d, int count, float *restrict sum) {
  for (int i = 0; i < count; i++) sum[i] += d[i];
}

static void scatter_columns(const embedding_t *e, int column, int columns) {
  float buffer[COLUMNS_PER_TASK];
  size_t width = (size_t)e->width, first = (size_t)column;
  for (int row = 0; row < train_batch_rows(e->batch); row++) {
    const float *d =
        train_dtype_read(e->dtype, e->d_out, (size_t)row * width + first, (size_t)columns, buffer);
    float *token = NULL, *position = NULL;
    if (e->d_token_table != NULL && has_token(e, row)) {
      token = e->d_token_table + token_offset(e, row) + first;
    }
    if (e->d_position_table != NULL) {
      position = e->d_position_table + position_of(e, row) * width + first;
    }
    if (token != NULL && position != NULL) {
      add_to_both(d, columns, token, position);
    } else if (token != NULL || position != NULL) {
      add_to_one(d, columns, token != NULL ? token : position);
    }
  }
}

static void backward_task(void *context, int task, int thread) {
  const embedding_t *e = context;
  int column = task * COLUMNS_PER_TASK, columns = min_int(COLUMNS_PER_TASK, e->width - column);
  bool overwrite = e->overwrite && e->d_position_table != NULL;
  (void)thread;
  for (int i = 0; overwrite && i < e->context; i++) {
    memset(e->d_position_table + (size_t)i * (size_t)e->width + column, 0,
           (size_t)columns * sizeof(float));
  }
  scatter_columns(e, column, columns);
}

void train_host_embedding_backward(const train_exec_t *exec, const train_batch_t *batch,
                                   const int32_t *tokens, train_vocabulary_t vocabulary,
                                   const void *d_out, int width, int context, bool overwrite,
                                   float *d_token_table, float *d_position_table) {
  embedding_t e = {.dtype = exec->dtype,
                   .batch = batch,
                   .tokens = tokens,
                   .vocabulary = vocabulary,
                   .width = width,
                   .d_out = d_out,
                   .context = context,
                   .overwrite = overwrite,
                   .d_token_table = d_token_table,
                   .d_position_table = d_position_table};
  train_pool_run(exec->pool, (width + COLUMNS_PER_TASK - 1) / COLUMNS_PER_TASK, backward_task, &e);
}
