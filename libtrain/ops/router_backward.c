/*
 * Backward: the gradients of logits, row by row, then two matrix products in float32, for which
 * rows of a narrow type are widened ROWS at a time.
 */
#include <string.h>

#include "base/alloc.h"
#include "libtrain/common/vector.h"
#include "libtrain/ops/router.h"
#include "libtrain/ops/router_state.h"

#define ROWS 512  /* widened at a time */
#define BLOCK 512 /* elements converted at a time */

/* Arguments of a call. */
typedef struct call {
  const train_router_t *router;
  const train_route_t *route;
  int rows, length;       /* rows of a sequence here */
  const float *d_weights; /* [rows, top_k] */
  float scale, *d_logits; /* [rows, experts] */
} call_t;

size_t train_router_scratch(const train_router_t *router, int rows, train_dtype_t dtype) {
  size_t experts = (size_t)router->experts, d_logits = base_round_up((size_t)rows * experts, 16);
  if (dtype == TRAIN_FLOAT32) return d_logits;
  return d_logits + (experts + (size_t)router_min(rows, ROWS)) * (size_t)router->width;
}

/* d[] = d_balance * first_choices[], the gradients of probabilities by the balance loss. */
TRAIN_VECTORIZED
static void balance_gradients(const int32_t *first_choices, float d_balance, int count,
                              float *restrict d) {
  for (int i = 0; i < count; i++) d[i] = d_balance * (float)first_choices[i];
}

/* Replaces gradients of probabilities by gradients of logits; every probability's logarithm also
 * has the gradient d_log_sum. */
TRAIN_VECTORIZED
static void softmax_backward(const float *probabilities, float d_log_sum, int count,
                             float *restrict d) {
  float dot = 0;
#pragma omp simd reduction(+ : dot)
  for (int i = 0; i < count; i++) dot += probabilities[i] * d[i];
  for (int i = 0; i < count; i++) d[i] = probabilities[i] * (d[i] - dot + d_log_sum);
}

/* Adds the gradients of the chosen probabilities by what used the weights. */
static void weight_gradients(const call_t *c, size_t row, const float *probabilities, float *d) {
  size_t at = row * (size_t)c->router->top_k;
  const int32_t *choices = c->route->choices + at;
  const float *weights = c->route->weights + at, *d_weights = c->d_weights + at;
  if (c->router->top_k == 1) {
    d[choices[0]] += d_weights[0];
    return;
  }
  float sum = probabilities[choices[0]] + probabilities[choices[1]];
  float mean = weights[0] * d_weights[0] + weights[1] * d_weights[1];
  d[choices[0]] += (d_weights[0] - mean) / sum;
  d[choices[1]] += (d_weights[1] - mean) / sum;
}

static void row_backward(const call_t *c, int row, float d_balance, const int32_t *first_choices) {
  int experts = c->router->experts;
  size_t at = (size_t)row * (size_t)experts;
  const float *probabilities = c->route->probabilities + at;
  float *d = c->d_logits + at;
  balance_gradients(first_choices, d_balance, experts, d);
  weight_gradients(c, (size_t)row, probabilities, d);
  softmax_backward(probabilities, 2 * c->scale * c->router->z * c->route->log_sums[row], experts,
                   d);
}

static void logits_task(void *context, int task, int thread) {
  const call_t *c = context;
  int from = task * ROUTER_ROWS_PER_TASK, to = router_min(from + ROUTER_ROWS_PER_TASK, c->rows),
      sequence = -1;
  float d_balance = 0;
  (void)thread;
  for (int row = from; row < to; row++) {
    if (row / c->length != sequence) {
      sequence = row / c->length;
      d_balance = c->scale * c->router->balance * (float)c->router->experts /
                  (float)router_whole_length(c->router, c->route, sequence);
    }
    row_backward(c, row, d_balance, router_first_choices(c->router, c->route, sequence));
  }
}

/* Where a tile of the gradient of `in` is added. */
typedef struct d_in {
  train_dtype_t dtype;
  int width;
  void *values; /* [rows, width] */
} d_in_t;

TRAIN_VECTORIZED
static void add(const float *a, const float *b, int count, float *sum) {
  for (int i = 0; i < count; i++) sum[i] = a[i] + b[i];
}

static void d_in_epilogue(const void *context, const train_tile_t *tile) {
  const d_in_t *d_in = context;
  float buffer[BLOCK];
  for (int row = 0; row < tile->rows; row++) {
    for (int column = 0; column < tile->columns; column += BLOCK) {
      int count = router_min(BLOCK, tile->columns - column);
      size_t at = (size_t)(tile->row + row) * (size_t)d_in->width + (size_t)(tile->column + column);
      const float *values = tile->values + (size_t)row * (size_t)tile->stride + column;
      float *sum = d_in->dtype == TRAIN_FLOAT32 ? (float *)d_in->values + at : buffer;
      add(train_dtype_read(d_in->dtype, d_in->values, at, (size_t)count, buffer), values, count,
          sum);
      if (sum == buffer) {
        train_dtype_narrow(d_in->dtype, sum, (size_t)count,
                           train_dtype_at(d_in->dtype, d_in->values, at));
      }
    }
  }
}

/* Some rows, with float32 factors; d_gate or d_in->values may be NULL. */
static void multiply_d_logits(const train_exec_t *exec, const train_router_t *router, int rows,
                              const float *d_logits, const float *in, const float *gate,
                              bool overwrite, const d_in_t *d_in, float *d_gate) {
  const train_product_t of_gate = {.rows = router->experts,
                                   .columns = router->width,
                                   .depth = rows,
                                   .dtype = TRAIN_FLOAT32,
                                   .a = d_logits,
                                   .a_stride = router->experts,
                                   .a_transposed = true,
                                   .b = in,
                                   .b_stride = router->width,
                                   .add = !overwrite,
                                   .out = d_gate,
                                   .out_stride = router->width};
  const train_product_t of_in = {.rows = rows,
                                 .columns = router->width,
                                 .depth = router->experts,
                                 .dtype = TRAIN_FLOAT32,
                                 .a = d_logits,
                                 .a_stride = router->experts,
                                 .b = gate,
                                 .b_stride = router->width,
                                 .epilogue = d_in_epilogue,
                                 .context = d_in};
  train_product_t products[2];
  int count = 0;
  if (d_gate != NULL) products[count++] = of_gate;
  if (d_in->values != NULL) products[count++] = of_in;
  if (count > 0) train_gemm_run(exec->gemm, products, count);
}

/* Of the gradients of logits to those of `in` and of the gate, for ROWS rows at a time if the type
 * is narrow. The scratch has the gate and as many rows behind the gradients of logits. */
static void logits_backward(const train_exec_t *exec, const call_t *c, const void *in,
                            const void *gate, bool overwrite, void *d_in, float *d_gate) {
  const train_router_t *router = c->router;
  size_t width = (size_t)router->width, experts = (size_t)router->experts;
  float *buffer = exec->scratch + base_round_up((size_t)c->rows * experts, 16);
  float *in_buffer = buffer + experts * width;
  const float *wide_gate =
      d_in != NULL ? train_dtype_read(exec->dtype, gate, 0, experts * width, buffer) : NULL;
  int step = exec->dtype == TRAIN_FLOAT32 ? c->rows : ROWS;
  for (int row = 0; row < c->rows; row += step) {
    int rows = router_min(step, c->rows - row);
    size_t at = (size_t)row * width;
    const d_in_t to = {.dtype = exec->dtype,
                       .width = router->width,
                       .values = d_in != NULL ? train_dtype_at(exec->dtype, d_in, at) : NULL};
    const float *wide_in =
        d_gate != NULL ? train_dtype_read(exec->dtype, in, at, (size_t)rows * width, in_buffer)
                       : NULL;
    multiply_d_logits(exec, router, rows, c->d_logits + (size_t)row * experts, wide_in, wide_gate,
                      overwrite && row == 0, &to, d_gate);
  }
}

void train_router_backward(const train_exec_t *exec, const train_router_t *router,
                           const train_batch_t *batch, const train_route_t *route, const void *in,
                           const void *gate, const float *d_weights, float scale, bool overwrite,
                           void *d_in, float *d_gate) {
  call_t c = {.router = router,
              .route = route,
              .rows = train_batch_rows(batch),
              .length = batch->length,
              .d_weights = d_weights,
              .scale = scale,
              .d_logits = exec->scratch};
  train_pool_run(exec->pool, router_divide_up(c.rows, ROUTER_ROWS_PER_TASK), logits_task, &c);
  logits_backward(exec, &c, in, gate, overwrite, d_in, d_gate);
  if (d_gate != NULL) return;
  memcpy(route->probabilities, c.d_logits,
         (size_t)c.rows * (size_t)router->experts * sizeof *c.d_logits);
}

void train_router_backward_weight(const train_exec_t *exec, const train_router_t *router,
                                  const train_batch_t *batch, const train_route_t *route,
                                  const void *in, bool overwrite, float *d_gate) {
  const call_t c = {
      .router = router, .rows = train_batch_rows(batch), .d_logits = route->probabilities};
  logits_backward(exec, &c, in, NULL, overwrite, NULL, d_gate);
}
