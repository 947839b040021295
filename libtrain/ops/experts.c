/* Copies and weighted sums between rows and slots. Every row is computed by one task. */
#include "libtrain/ops/experts.h"

#include <string.h>

#include "libtrain/common/vector.h"

#define ROWS_PER_TASK 16
#define BLOCK 512 /* elements converted at a time */

/* Arguments of a call. */
typedef struct call {
  train_dtype_t dtype;
  const train_expert_slots_t *slots;
  const void *in, *sorted;
  void *out, *to_sorted;
  bool add;
  float *d_weights;
} call_t;

static int min_int(int a, int b) {
  return a < b ? a : b;
}

static int divide_up(int a, int b) {
  return (a + b - 1) / b;
}

static size_t row_at(const call_t *c, int row) {
  return (size_t)row * (size_t)c->slots->width;
}

/* The slots of a row. */
static const int32_t *slots_of(const call_t *c, int row) {
  return c->slots->slots + (size_t)row * (size_t)c->slots->top_k;
}

typedef void visit_t(const call_t *c, int row);

static void visit_rows(const call_t *c, int task, visit_t *visit) {
  int from = task * ROWS_PER_TASK, to = min_int(from + ROWS_PER_TASK, c->slots->rows);
  for (int row = from; row < to; row++) visit(c, row);
}

static int row_tasks(const call_t *c) {
  return divide_up(c->slots->rows, ROWS_PER_TASK);
}

/* Writes zeros to the slots of an expert that belong to no row. */
static void clear_unused(const call_t *c, int expert) {
  const train_expert_rows_t *sorted = &c->slots->sorted;
  int first = sorted->starts[expert] + sorted->counts[expert], end = sorted->starts[expert + 1];
  size_t bytes = train_dtype_bytes(c->dtype) * (size_t)c->slots->width;
  memset(train_dtype_at(c->dtype, c->to_sorted, row_at(c, first)), 0,
         (size_t)(end - first) * bytes);
}

/* ---- dispatch ---- */

static void dispatch_row(const call_t *c, int row) {
  size_t bytes = train_dtype_bytes(c->dtype) * (size_t)c->slots->width;
  for (int i = 0; i < c->slots->top_k; i++) {
    int slot = slots_of(c, row)[i];
    if (slot < 0) continue;
    memcpy(train_dtype_at(c->dtype, c->to_sorted, row_at(c, slot)),
           train_dtype_const_at(c->dtype, c->in, row_at(c, row)), bytes);
  }
}

/* The tasks of rows, then one for each expert. */
static void dispatch_task(void *context, int task, int thread) {
  const call_t *c = context;
  (void)thread;
  if (task < row_tasks(c)) {
    visit_rows(c, task, dispatch_row);
  } else {
    clear_unused(c, task - row_tasks(c));
  }
}

void train_experts_dispatch(const train_exec_t *exec, const train_expert_slots_t *slots,
                            const void *in, void *sorted) {
  call_t c = {.dtype = exec->dtype, .slots = slots, .in = in, .to_sorted = sorted};
  train_pool_run(exec->pool, row_tasks(&c) + slots->sorted.experts, dispatch_task, &c);
}

TRAIN_VECTORIZED
static void add_scaled(const float *values, float by, int count, float *restrict sum) {
  for (int i = 0; i < count; i++) sum[i] += by * values[i];
}

/* out[row] = the sum of slots of `sorted`, weighted unless weights is NULL, + in[row] unless `in`
 * is NULL. */
static void sum_row(const call_t *c, int row, const float *weights) {
  float sum[BLOCK], buffer[BLOCK];
  for (int column = 0; column < c->slots->width; column += BLOCK) {
    size_t count = (size_t)min_int(BLOCK, c->slots->width - column);
    size_t at = row_at(c, row) + (size_t)column;
    if (c->in != NULL) {
      memcpy(sum, train_dtype_read(c->dtype, c->in, at, count, buffer), count * sizeof *sum);
    } else {
      memset(sum, 0, count * sizeof *sum);
    }
    for (int i = 0; i < c->slots->top_k; i++) {
      int slot = slots_of(c, row)[i];
      if (slot < 0) continue;
      size_t slot_at = row_at(c, slot) + (size_t)column;
      add_scaled(train_dtype_read(c->dtype, c->sorted, slot_at, count, buffer),
                 weights != NULL ? weights[i] : 1, (int)count, sum);
    }
    train_dtype_narrow(c->dtype, sum, count, train_dtype_at(c->dtype, c->out, at));
  }
}

static void dispatch_backward_row(const call_t *c, int row) {
  sum_row(c, row, NULL);
}

static void dispatch_backward_task(void *context, int task, int thread) {
  (void)thread;
  visit_rows(context, task, dispatch_backward_row);
}

void train_experts_dispatch_backward(const train_exec_t *exec, const train_expert_slots_t *slots,
                                     const void *d_sorted, bool add, void *d_in) {
  call_t c = {.dtype = exec->dtype,
              .slots = slots,
              .in = add ? d_in : NULL,
              .sorted = d_sorted,
              .out = d_in};
  train_pool_run(exec->pool, row_tasks(&c), dispatch_backward_task, &c);
}

/* ---- combine ---- */

static void combine_row(const call_t *c, int row) {
  sum_row(c, row, c->slots->weights + (size_t)row * (size_t)c->slots->top_k);
}

static void combine_task(void *context, int task, int thread) {
  (void)thread;
  visit_rows(context, task, combine_row);
}

void train_experts_combine(const train_exec_t *exec, const train_expert_slots_t *slots,
                           const void *sorted, const void *residual, void *out) {
  call_t c = {.dtype = exec->dtype, .slots = slots, .in = residual, .sorted = sorted, .out = out};
  train_pool_run(exec->pool, row_tasks(&c), combine_task, &c);
}

/* Scales d_out into d_sorted and returns the dot product of d_out and `sorted`. */
TRAIN_VECTORIZED
static float scale_and_dot(const float *d_out, const float *sorted, float weight, int count,
                           float *restrict d_sorted) {
  float dot = 0;
#pragma omp simd reduction(+ : dot)
  for (int i = 0; i < count; i++) {
    d_sorted[i] = weight * d_out[i];
    dot += d_out[i] * sorted[i];
  }
  return dot;
}

/* One choice of a row. */
static float choice_backward(const call_t *c, int row, int slot, float weight) {
  float d_out_buffer[BLOCK], sorted_buffer[BLOCK], d_sorted[BLOCK], dot = 0;
  for (int column = 0; column < c->slots->width; column += BLOCK) {
    size_t count = (size_t)min_int(BLOCK, c->slots->width - column);
    size_t at = row_at(c, row) + (size_t)column, slot_at = row_at(c, slot) + (size_t)column;
    dot += scale_and_dot(train_dtype_read(c->dtype, c->in, at, count, d_out_buffer),
                         train_dtype_read(c->dtype, c->sorted, slot_at, count, sorted_buffer),
                         weight, (int)count, d_sorted);
    train_dtype_narrow(c->dtype, d_sorted, count, train_dtype_at(c->dtype, c->to_sorted, slot_at));
  }
  return dot;
}

static void combine_backward_row(const call_t *c, int row) {
  for (int i = 0; i < c->slots->top_k; i++) {
    size_t at = (size_t)row * (size_t)c->slots->top_k + (size_t)i;
    int slot = c->slots->slots[at];
    c->d_weights[at] = slot >= 0 ? choice_backward(c, row, slot, c->slots->weights[at]) : 0;
  }
}

static void combine_backward_task(void *context, int task, int thread) {
  const call_t *c = context;
  (void)thread;
  if (task < row_tasks(c)) {
    visit_rows(c, task, combine_backward_row);
  } else {
    clear_unused(c, task - row_tasks(c));
  }
}

void train_experts_combine_backward(const train_exec_t *exec, const train_expert_slots_t *slots,
                                    const void *d_out, const void *sorted, void *d_sorted,
                                    float *d_weights) {
  call_t c = {.dtype = exec->dtype,
              .slots = slots,
              .in = d_out,
              .sorted = sorted,
              .to_sorted = d_sorted,
              .d_weights = d_weights};
  train_pool_run(exec->pool, row_tasks(&c) + slots->sorted.experts, combine_backward_task, &c);
}
