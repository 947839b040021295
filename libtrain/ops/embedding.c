/*
 * Token and position embeddings: sums of rows of two tables. Backward scatters the gradients of
 * rows. It is divided by columns, so that rows with the same token are added in a fixed order.
 */
#include <string.h>

#include "libtrain/common/vector.h"
#include "libtrain/ops/host.h"

#define ROWS_PER_TASK 16
#define COLUMNS_PER_TASK 64

typedef struct embedding {
  const train_batch_t *batch;
  const int32_t *tokens;
  int width;
  const float *token_table, *position_table;
  float *out;
  const float *d_out;
  int context;
  bool overwrite;
  float *d_token_table, *d_position_table;
} embedding_t;

static int min_int(int a, int b) {
  return a < b ? a : b;
}

static size_t position_of(const embedding_t *e, int row) {
  return (size_t)(e->batch->first + row % e->batch->length);
}

TRAIN_VECTORIZED
static void add_rows(const embedding_t *e, int from, int to) {
  size_t width = (size_t)e->width;
  for (int row = from; row < to; row++) {
    const float *token = e->token_table + (size_t)e->tokens[row] * width;
    const float *position = e->position_table + position_of(e, row) * width;
    float *restrict out = e->out + (size_t)row * width;
    for (size_t i = 0; i < width; i++) out[i] = token[i] + position[i];
  }
}

static void forward_task(void *context, int task, int thread) {
  const embedding_t *e = context;
  int from = task * ROWS_PER_TASK;
  (void)thread;
  add_rows(e, from, min_int(from + ROWS_PER_TASK, train_batch_rows(e->batch)));
}

void train_host_embedding_forward(const train_exec_t *exec, const train_batch_t *batch,
                                  const int32_t *tokens, const void *token_table,
                                  const void *position_table, int width, void *out) {
  embedding_t e = {.batch = batch,
                   .tokens = tokens,
                   .width = width,
                   .token_table = token_table,
                   .position_table = position_table,
                   .out = out};
  int tasks = (train_batch_rows(batch) + ROWS_PER_TASK - 1) / ROWS_PER_TASK;
  train_pool_run(exec->pool, tasks, forward_task, &e);
}

TRAIN_VECTORIZED
static void scatter_columns(const embedding_t *e, int column, int columns) {
  size_t width = (size_t)e->width;
  for (int row = 0; row < train_batch_rows(e->batch); row++) {
    const float *d = e->d_out + (size_t)row * width + column;
    float *restrict d_token = e->d_token_table + (size_t)e->tokens[row] * width + column;
    float *restrict d_position = e->d_position_table + position_of(e, row) * width + column;
    for (int i = 0; i < columns; i++) {
      d_token[i] += d[i];
      d_position[i] += d[i];
    }
  }
}

static void backward_task(void *context, int task, int thread) {
  const embedding_t *e = context;
  int column = task * COLUMNS_PER_TASK, columns = min_int(COLUMNS_PER_TASK, e->width - column);
  (void)thread;
  for (int i = 0; e->overwrite && i < e->context; i++) {
    memset(e->d_position_table + (size_t)i * (size_t)e->width + column, 0,
           (size_t)columns * sizeof(float));
  }
  scatter_columns(e, column, columns);
}

void train_host_embedding_backward(const train_exec_t *exec, const train_batch_t *batch,
                                   const int32_t *tokens, const void *d_out, int width, int context,
                                   bool overwrite, float *d_token_table, float *d_position_table) {
  embedding_t e = {.batch = batch,
                   .tokens = tokens,
                   .width = width,
                   .d_out = d_out,
                   .context = context,
                   .overwrite = overwrite,
                   .d_token_table = d_token_table,
                   .d_position_table = d_position_table};
  train_pool_run(exec->pool, (width + COLUMNS_PER_TASK - 1) / COLUMNS_PER_TASK, backward_task, &e);
}
