/*
 * Forward: the logits are one matrix product; then rows are processed in groups (softmax, choices),
 * then sequences (counts, decisions, slots), whose rows are visited in order. Backward: the
 * gradients of logits, row by row, then two matrix products in float32, for which rows of a narrow
 * type are widened ROWS at a time.
 */
#include "libtrain/ops/router.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "libtrain/common/vector.h"

#define ROWS_PER_TASK 64
#define ROWS 512  /* widened at a time */
#define BLOCK 512 /* elements converted at a time */

/* Arguments of a call. */
typedef struct call {
  const train_router_t *router;
  const train_route_t *route;
  train_dtype_t dtype;
  int rows, length;       /* rows of a sequence here */
  int first, end;         /* rows that get slots */
  const float *d_weights; /* [rows, top_k] */
  float scale, *d_logits; /* [rows, experts] */
} call_t;

static int min_int(int a, int b) {
  return a < b ? a : b;
}

static int divide_up(int a, int b) {
  return (a + b - 1) / b;
}

static size_t round_up(size_t count, size_t to) {
  return (count + to - 1) / to * to;
}

/* ---- sizes ---- */

int train_router_capacity(const train_router_t *router, int length) {
  if (router->capacity_factor <= 0) return length;
  double capacity = ceil(router->capacity_factor * router->top_k * length / router->experts);
  return capacity < length ? (int)capacity : length;
}

int train_router_part_rows(const train_router_t *router, int rows) {
  return router->parts > 1 ? divide_up(rows, router->parts) : rows;
}

size_t train_router_slots(const train_router_t *router, int sequences, int all_rows, int length) {
  size_t experts = (size_t)router->experts, align = (size_t)router->align;
  int rows = train_router_part_rows(router, all_rows);
  size_t accepted = (size_t)sequences * (size_t)train_router_capacity(router, length);
  size_t of_expert = accepted < (size_t)rows ? accepted : (size_t)rows;
  size_t by_experts = experts * round_up(of_expert, align);
  size_t by_rows = (size_t)rows * (size_t)router->top_k + experts * (align - 1);
  return round_up(by_experts < by_rows ? by_experts : by_rows, align);
}

size_t train_router_scratch(const train_router_t *router, int rows, train_dtype_t dtype) {
  size_t experts = (size_t)router->experts, d_logits = round_up((size_t)rows * experts, 16);
  if (dtype == TRAIN_FLOAT32) return d_logits;
  return d_logits + (experts + (size_t)min_int(rows, ROWS)) * (size_t)router->width;
}

/* ---- rows: softmax and choices ---- */

static void choose(const float *logits, int experts, int top_k, int32_t *choices) {
  int first = 0;
  for (int i = 1; i < experts; i++) {
    if (logits[i] > logits[first]) first = i;
  }
  choices[0] = first;
  if (top_k == 1) return;
  int second = first == 0 ? 1 : 0;
  for (int i = second + 1; i < experts; i++) {
    if (i != first && logits[i] > logits[second]) second = i;
  }
  choices[1] = second;
}

/* Replaces logits, whose maximum is given, by probabilities; returns the logarithm of the sum. */
TRAIN_VECTORIZED
static float softmax(float *restrict logits, int count, float max) {
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int i = 0; i < count; i++) {
    logits[i] = train_exp(logits[i] - max);
    sum += logits[i];
  }
  float inverse = 1.0f / sum;
  for (int i = 0; i < count; i++) logits[i] *= inverse;
  return max + logf(sum);
}

static void route_row(const call_t *c, size_t row) {
  int experts = c->router->experts, top_k = c->router->top_k;
  float *logits = c->route->probabilities + row * (size_t)experts;
  int32_t *choices = c->route->choices + row * (size_t)top_k;
  float *weights = c->route->weights + row * (size_t)top_k;
  choose(logits, experts, top_k, choices);
  c->route->log_sums[row] = softmax(logits, experts, logits[choices[0]]);
  weights[0] = logits[choices[0]];
  if (top_k == 1) return;
  float sum = logits[choices[0]] + logits[choices[1]];
  weights[0] = logits[choices[0]] / sum;
  weights[1] = logits[choices[1]] / sum;
}

static void rows_task(void *context, int task, int thread) {
  const call_t *c = context;
  int from = task * ROWS_PER_TASK, to = min_int(from + ROWS_PER_TASK, c->rows);
  (void)thread;
  for (int row = from; row < to; row++) route_row(c, (size_t)row);
}

/* ---- sequences: counts, decisions, slots ---- */

/* The counters of a segment's choices of that rank, one for each expert. */
static int32_t *counters(const call_t *c, int32_t *counts, int sequence, int segment, int rank) {
  const train_router_t *router = c->router;
  int at = (sequence * router->segments + segment) * router->top_k + rank;
  return counts + (size_t)at * (size_t)router->experts;
}

static int32_t *totals_of(const call_t *c, int sequence, int rank) {
  size_t at = (size_t)(sequence * c->router->top_k + rank);
  return c->route->totals + at * (size_t)c->router->experts;
}

/* The index of a choice in arrays of [rows, top_k]. */
static size_t choice_at(const call_t *c, int sequence, int row, int rank) {
  size_t all = (size_t)sequence * (size_t)c->length + (size_t)row;
  return all * (size_t)c->router->top_k + (size_t)rank;
}

static void count_task(void *context, int sequence, int thread) {
  const call_t *c = context;
  const train_router_t *router = c->router;
  int of_segment = c->length / router->segments;
  (void)thread;
  memset(counters(c, c->route->own, sequence, 0, 0), 0,
         (size_t)(router->segments * router->top_k * router->experts) * sizeof(int32_t));
  for (int row = 0; row < c->length; row++) {
    for (int rank = 0; rank < router->top_k; rank++) {
      int32_t *counts = counters(c, c->route->own, sequence, row / of_segment, rank);
      counts[c->route->choices[choice_at(c, sequence, row, rank)]]++;
    }
  }
}

/* Completes the counts of whole sequences. */
static void complete_whole(const train_router_counts_t *counts) {
  size_t of_segment = (size_t)(counts->top_k * counts->experts);
  for (int sequence = 0; sequence < counts->sequences; sequence++) {
    int32_t *totals = counts->totals + (size_t)sequence * of_segment;
    memset(totals, 0, of_segment * sizeof *totals);
    for (int segment = 0; segment < counts->segments; segment++) {
      size_t at = (size_t)(sequence * counts->segments + segment) * of_segment;
      for (size_t i = 0; i < of_segment; i++) {
        counts->before[at + i] = totals[i];
        totals[i] += counts->own[at + i];
      }
    }
  }
}

/* The length of the whole sequence, also of the rows that are elsewhere. */
static int whole_length(const call_t *c, int sequence) {
  const int32_t *totals = totals_of(c, sequence, 0);
  int length = 0;
  for (int i = 0; i < c->router->experts; i++) length += totals[i];
  return length;
}

/* Keeps or drops the choices of a sequence, and counts those kept that get a slot for each expert.
 * Second choices queue up behind all first choices. Returns the number of those kept. */
static int64_t decide(const call_t *c, int sequence, int capacity) {
  const train_router_t *router = c->router;
  int of_segment = c->length / router->segments;
  int32_t *kept = c->route->kept + (size_t)sequence * (size_t)router->experts;
  const int32_t *first_choices = totals_of(c, sequence, 0);
  int64_t all_kept = 0;
  memset(kept, 0, (size_t)router->experts * sizeof *kept);
  for (int rank = 0; rank < router->top_k; rank++) {
    for (int row = 0; row < c->length; row++) {
      int of_all = sequence * c->length + row;
      bool here = of_all >= c->first && of_all < c->end;
      size_t at = choice_at(c, sequence, row, rank);
      int expert = c->route->choices[at];
      int32_t *queue = counters(c, c->route->before, sequence, row / of_segment, rank);
      int place = queue[expert]++ + (rank > 0 ? first_choices[expert] : 0);
      bool accepted = router->capacity_factor <= 0 || place < capacity;
      c->route->slots[at] = accepted && here ? 0 : -1;
      kept[expert] += accepted && here;
      all_kept += accepted;
    }
  }
  return all_kept;
}

enum { SUM_BALANCE, SUM_Z, SUM_KEPT }; /* of TRAIN_ROUTE_SUMS */

/* The parts of the losses of a sequence's rows here. */
static void sum_losses(const call_t *c, int sequence, int length) {
  size_t experts = (size_t)c->router->experts, first = (size_t)sequence * (size_t)c->length;
  const int32_t *first_choices = totals_of(c, sequence, 0);
  double balance = 0, z = 0;
  for (size_t row = first; row < first + (size_t)c->length; row++) {
    const float *probabilities = c->route->probabilities + row * experts;
    double log_sum = (double)c->route->log_sums[row];
    for (size_t i = 0; i < experts; i++) balance += (double)probabilities[i] * first_choices[i];
    z += log_sum * log_sum;
  }
  double *sums = c->route->sums + (size_t)sequence * TRAIN_ROUTE_SUMS;
  sums[SUM_BALANCE] = balance * (double)experts / length;
  sums[SUM_Z] = z;
}

static void decide_task(void *context, int sequence, int thread) {
  const call_t *c = context;
  int length = whole_length(c, sequence);
  (void)thread;
  int64_t kept = decide(c, sequence, train_router_capacity(c->router, length));
  c->route->sums[(size_t)sequence * TRAIN_ROUTE_SUMS + SUM_KEPT] = (double)kept;
  sum_losses(c, sequence, length);
}

/* Replaces the numbers of kept choices by the first slots of each sequence's choices. */
static void assign_starts(const call_t *c, int sequences) {
  const train_route_t *route = c->route;
  int experts = c->router->experts, start = 0;
  for (int expert = 0; expert < experts; expert++) {
    int slot = start;
    for (int sequence = 0; sequence < sequences; sequence++) {
      int32_t *kept = &route->kept[(size_t)sequence * (size_t)experts + (size_t)expert];
      int count = *kept;
      *kept = slot;
      slot += count;
    }
    route->starts[expert] = start;
    route->counts[expert] = slot - start;
    start = divide_up(slot, c->router->align) * c->router->align;
  }
  route->starts[experts] = start;
}

static void slots_task(void *context, int sequence, int thread) {
  const call_t *c = context;
  int32_t *next = c->route->kept + (size_t)sequence * (size_t)c->router->experts;
  size_t from = choice_at(c, sequence, 0, 0), to = choice_at(c, sequence + 1, 0, 0);
  (void)thread;
  for (size_t at = from; at < to; at++) {
    if (c->route->slots[at] >= 0) c->route->slots[at] = next[c->route->choices[at]]++;
  }
}

/* ---- forward ---- */

static void multiply_gate(const train_exec_t *exec, const call_t *c, const void *in,
                          const void *gate) {
  const train_product_t product = {.rows = c->rows,
                                   .columns = c->router->experts,
                                   .depth = c->router->width,
                                   .dtype = exec->dtype,
                                   .a = in,
                                   .a_stride = c->router->width,
                                   .b = gate,
                                   .b_stride = c->router->width,
                                   .b_transposed = true,
                                   .out = c->route->probabilities,
                                   .out_stride = c->router->experts};
  train_gemm_run(exec->gemm, &product, 1);
}

static train_router_result_t result_of(const call_t *c, int sequences) {
  train_router_result_t result = {.balance = 0};
  for (int sequence = 0; sequence < sequences; sequence++) {
    const double *sums = c->route->sums + (size_t)sequence * TRAIN_ROUTE_SUMS;
    result.balance += sums[SUM_BALANCE];
    result.z += sums[SUM_Z];
    result.kept += (int64_t)sums[SUM_KEPT];
  }
  result.dropped = (int64_t)c->rows * c->router->top_k - result.kept;
  return result;
}

train_router_result_t train_router_forward(const train_exec_t *exec, const train_router_t *router,
                                           const train_batch_t *batch, const void *in,
                                           const void *gate, train_router_complete_t *complete,
                                           void *context, const train_route_t *route) {
  assert(router->top_k >= 1 && router->top_k <= TRAIN_TOP_K_MAX);
  assert(router->top_k <= router->experts && batch->length % router->segments == 0);
  call_t c = {
      .router = router, .route = route, .rows = train_batch_rows(batch), .length = batch->length};
  c.first = router->part * train_router_part_rows(router, c.rows);
  c.end = c.first + train_router_part_rows(router, c.rows);
  const train_router_counts_t counts = {.sequences = batch->sequences,
                                        .segments = router->segments,
                                        .top_k = router->top_k,
                                        .experts = router->experts,
                                        .own = route->own,
                                        .before = route->before,
                                        .totals = route->totals};
  multiply_gate(exec, &c, in, gate);
  train_pool_run(exec->pool, divide_up(c.rows, ROWS_PER_TASK), rows_task, &c);
  train_pool_run(exec->pool, batch->sequences, count_task, &c);
  if (complete != NULL) {
    complete(context, &counts);
  } else {
    complete_whole(&counts);
  }
  train_pool_run(exec->pool, batch->sequences, decide_task, &c);
  assign_starts(&c, batch->sequences);
  train_pool_run(exec->pool, batch->sequences, slots_task, &c);
  return result_of(&c, batch->sequences);
}

/* ---- backward ---- */

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
  int from = task * ROWS_PER_TASK, to = min_int(from + ROWS_PER_TASK, c->rows), sequence = -1;
  float d_balance = 0;
  (void)thread;
  for (int row = from; row < to; row++) {
    if (row / c->length != sequence) {
      sequence = row / c->length;
      d_balance = c->scale * c->router->balance * (float)c->router->experts /
                  (float)whole_length(c, sequence);
    }
    row_backward(c, row, d_balance, totals_of(c, sequence, 0));
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
      int count = min_int(BLOCK, tile->columns - column);
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
  float *buffer = exec->scratch + round_up((size_t)c->rows * experts, 16);
  float *in_buffer = buffer + experts * width;
  const float *wide_gate =
      d_in != NULL ? train_dtype_read(exec->dtype, gate, 0, experts * width, buffer) : NULL;
  int step = exec->dtype == TRAIN_FLOAT32 ? c->rows : ROWS;
  for (int row = 0; row < c->rows; row += step) {
    int rows = min_int(step, c->rows - row);
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
  train_pool_run(exec->pool, divide_up(c.rows, ROWS_PER_TASK), logits_task, &c);
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
