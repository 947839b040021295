/*
 * Forward: the logits are one matrix product; then rows are processed in groups (softmax, choices),
 * then sequences (weights, counts, decisions, slots), whose rows are visited in order.
 */
#include "libtrain/ops/router.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "libtrain/common/vector.h"
#include "libtrain/ops/router_state.h"

/* Arguments of a call. */
typedef struct call {
  const train_router_t *router;
  const train_route_t *route;
  int rows, length; /* rows of a sequence here */
  int first, end;   /* rows that get slots */
} call_t;

/* ---- sizes ---- */

int train_router_capacity(const train_router_t *router, int length) {
  if (router->capacity_factor <= 0) return length;
  double capacity = ceil(router->capacity_factor * router->top_k * length / router->experts);
  return capacity < length ? (int)capacity : length;
}

int train_router_part_rows(const train_router_t *router, int rows) {
  return router->parts > 1 ? router_divide_up(rows, router->parts) : rows;
}

size_t train_router_slots(const train_router_t *router, int sequences, int all_rows, int length) {
  size_t experts = (size_t)router->experts, align = (size_t)router->align;
  int rows = train_router_part_rows(router, all_rows);
  size_t accepted = (size_t)sequences * (size_t)train_router_capacity(router, length);
  size_t of_expert = accepted < (size_t)rows ? accepted : (size_t)rows;
  size_t by_experts = experts * base_round_up(of_expert, align);
  size_t by_rows = (size_t)rows * (size_t)router->top_k + experts * (align - 1);
  return base_round_up(by_experts < by_rows ? by_experts : by_rows, align);
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
  choose(logits, experts, top_k, choices);
  c->route->log_sums[row] = softmax(logits, experts, logits[choices[0]]);
}

static void rows_task(void *context, int task, int thread) {
  const call_t *c = context;
  int from = task * ROUTER_ROWS_PER_TASK, to = router_min(from + ROUTER_ROWS_PER_TASK, c->rows);
  (void)thread;
  for (int row = from; row < to; row++) route_row(c, (size_t)row);
}

/* ---- sequences: weights, counts, decisions, slots ---- */

static void weigh_row(const call_t *c, size_t row) {
  size_t top_k = (size_t)c->router->top_k;
  const float *probabilities = c->route->probabilities + row * (size_t)c->router->experts;
  const int32_t *choices = c->route->choices + row * top_k;
  float *weights = c->route->weights + row * top_k;
  weights[0] = probabilities[choices[0]];
  if (top_k == 1) return;
  float sum = probabilities[choices[0]] + probabilities[choices[1]];
  weights[0] = probabilities[choices[0]] / sum;
  weights[1] = probabilities[choices[1]] / sum;
}

/* The counters of a segment's choices of that rank, one for each expert. */
static int32_t *counters(const call_t *c, int32_t *counts, int sequence, int segment, int rank) {
  const train_router_t *router = c->router;
  int at = (sequence * router->segments + segment) * router->top_k + rank;
  return counts + (size_t)at * (size_t)router->experts;
}

/* The index of a choice in arrays of [rows, top_k]. */
static size_t choice_at(const call_t *c, int sequence, int row, int rank) {
  size_t all = (size_t)sequence * (size_t)c->length + (size_t)row;
  return all * (size_t)c->router->top_k + (size_t)rank;
}

static void weigh_and_count_task(void *context, int sequence, int thread) {
  const call_t *c = context;
  const train_router_t *router = c->router;
  int of_segment = c->length / router->segments;
  (void)thread;
  memset(counters(c, c->route->own, sequence, 0, 0), 0,
         (size_t)(router->segments * router->top_k * router->experts) * sizeof(int32_t));
  for (int row = 0; row < c->length; row++) {
    weigh_row(c, (size_t)sequence * (size_t)c->length + (size_t)row);
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

/* Keeps or drops the choices of a sequence, and counts those kept that get a slot for each expert.
 * Second choices queue up behind all first choices. Returns the number of those kept. */
static int64_t decide(const call_t *c, int sequence, int capacity) {
  const train_router_t *router = c->router;
  int of_segment = c->length / router->segments;
  int32_t *kept = c->route->kept + (size_t)sequence * (size_t)router->experts;
  const int32_t *first_choices = router_first_choices(c->router, c->route, sequence);
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
  const int32_t *first_choices = router_first_choices(c->router, c->route, sequence);
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
  int length = router_whole_length(c->router, c->route, sequence);
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
    start = router_divide_up(slot, c->router->align) * c->router->align;
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
  train_pool_run(exec->pool, router_divide_up(c.rows, ROUTER_ROWS_PER_TASK), rows_task, &c);
  if (router->replay != NULL) {
    router->replay->choose(router->replay->context, router->layer, batch, route->choices);
  }
  train_pool_run(exec->pool, batch->sequences, weigh_and_count_task, &c);
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
