/* See expert_cases.h. */
#include "expert_cases.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MARGIN 2e-3

train_router_t expert_router(const expert_case_t *c) {
  return (train_router_t){.width = c->width,
                          .experts = c->experts,
                          .top_k = c->top_k,
                          .capacity_factor = c->capacity_factor,
                          .balance = c->balance,
                          .z = c->z,
                          .segments = 1,
                          .align = 4};
}

train_batch_t expert_batch(const expert_case_t *c) {
  return (train_batch_t){.sequences = c->sequences, .length = c->length};
}

size_t expert_rows(const expert_case_t *c) {
  return (size_t)(c->sequences * c->length);
}

static void *filled(size_t count, size_t bytes) {
  void *memory = malloc(count * bytes);
  memset(memory, 0xff, count * bytes);
  return memory;
}

train_route_t expert_route(const train_router_t *router, const train_batch_t *batch) {
  size_t rows = (size_t)train_batch_rows(batch), sequences = (size_t)batch->sequences;
  size_t experts = (size_t)router->experts, top_k = (size_t)router->top_k;
  size_t counters = sequences * top_k * experts, all = counters * (size_t)router->segments;
  return (train_route_t){.probabilities = filled(rows * experts, sizeof(float)),
                         .log_sums = filled(rows, sizeof(float)),
                         .choices = filled(rows * top_k, sizeof(int32_t)),
                         .weights = filled(rows * top_k, sizeof(float)),
                         .slots = filled(rows * top_k, sizeof(int32_t)),
                         .own = filled(all, sizeof(int32_t)),
                         .before = filled(all, sizeof(int32_t)),
                         .totals = filled(counters, sizeof(int32_t)),
                         .kept = filled(sequences * experts, sizeof(int32_t)),
                         .sums = filled(sequences * TRAIN_ROUTE_SUMS, sizeof(double)),
                         .starts = filled(experts + 1, sizeof(int32_t)),
                         .counts = filled(experts, sizeof(int32_t))};
}

void expert_route_free(train_route_t *route) {
  free(route->probabilities), free(route->log_sums), free(route->choices), free(route->weights);
  free(route->slots), free(route->own), free(route->before), free(route->totals);
  free(route->kept), free(route->sums), free(route->starts), free(route->counts);
}

/* The largest logit that is not yet chosen. */
static int largest(const double *logits, int experts, const bool *chosen) {
  int best = -1;
  for (int i = 0; i < experts; i++) {
    if (!chosen[i] && (best < 0 || logits[i] > logits[best])) best = i;
  }
  return best;
}

/* Chooses for one row and adds to the sums over rows; returns the margin. */
static double choose(const expert_case_t *c, const double *in, const double *gate,
                     expert_choice_t *choices, double *probability_sums, int *first_counts,
                     double *z) {
  double logits[c->experts], sum = 0, chosen_sum = 0, margin = INFINITY;
  bool chosen[c->experts];
  for (int e = 0; e < c->experts; e++) {
    chosen[e] = false;
    logits[e] = 0;
    for (int i = 0; i < c->width; i++) logits[e] += in[i] * gate[e * c->width + i];
    sum += exp(logits[e]);
  }
  for (int k = 0; k < c->top_k; k++) {
    int best = largest(logits, c->experts, chosen);
    chosen[best] = true;
    int next = largest(logits, c->experts, chosen);
    if (next >= 0) margin = fmin(margin, logits[best] - logits[next]);
    choices[k] = (expert_choice_t){.expert = best, .weight = exp(logits[best]) / sum};
    chosen_sum += choices[k].weight;
  }
  for (int k = 0; k < c->top_k && c->top_k > 1; k++) choices[k].weight /= chosen_sum;
  for (int e = 0; e < c->experts; e++) probability_sums[e] += exp(logits[e]) / sum;
  first_counts[choices[0].expert]++;
  *z += log(sum) * log(sum);
  return margin;
}

static void drop(const expert_case_t *c, expert_choice_t *choices) {
  int accepted[c->experts];
  double capacity = ceil(c->capacity_factor * c->top_k * c->length / c->experts);
  for (int e = 0; e < c->experts; e++) accepted[e] = 0;
  for (int k = 0; k < c->top_k; k++) {
    for (int row = 0; row < c->length; row++) {
      expert_choice_t *choice = &choices[row * c->top_k + k];
      choice->kept = c->capacity_factor <= 0 || accepted[choice->expert] < capacity;
      accepted[choice->expert] += choice->kept;
    }
  }
}

double reference_route(const expert_case_t *c, const double *in, const double *gate,
                       expert_choice_t *choices, double losses[2]) {
  double margin = INFINITY;
  losses[0] = losses[1] = 0;
  for (int sequence = 0; sequence < c->sequences; sequence++) {
    double probability_sums[c->experts];
    int first_counts[c->experts];
    for (int e = 0; e < c->experts; e++) probability_sums[e] = 0, first_counts[e] = 0;
    for (int t = 0; t < c->length; t++) {
      int row = sequence * c->length + t;
      margin = fmin(margin, choose(c, in + row * c->width, gate, choices + row * c->top_k,
                                   probability_sums, first_counts, &losses[1]));
    }
    for (int e = 0; e < c->experts; e++) {
      double f = (double)first_counts[e] / c->length, p = probability_sums[e] / c->length;
      losses[0] += c->length * c->experts * f * p;
    }
    drop(c, choices + sequence * c->length * c->top_k);
  }
  return margin;
}

/* Adds weight * MLP(in) of an expert to out. The tensors are hidden weight and bias, output weight
 * and bias of all experts. */
static void add_mlp(const expert_case_t *c, const double *in, const double *tensors, int expert,
                    double weight, double *out) {
  int experts = c->experts;
  int width = c->width, hidden = c->hidden_width;
  const double *w1 = tensors + expert * hidden * width, *b1 = tensors + experts * hidden * width,
               *w2 = b1 + experts * hidden, *b2 = w2 + experts * width * hidden;
  b1 += expert * hidden, w2 += expert * width * hidden, b2 += expert * width;
  double active[hidden];
  const shape_t one = {.sequences = 1, .length = 1, .width = 1};
  for (int h = 0; h < hidden; h++) {
    double sum = b1[h];
    for (int i = 0; i < width; i++) sum += w1[h * width + i] * in[i];
    reference_gelu(&one, &sum, &active[h]);
  }
  for (int o = 0; o < width; o++) {
    double sum = b2[o];
    for (int h = 0; h < hidden; h++) sum += w2[o * hidden + h] * active[h];
    out[o] += weight * sum;
  }
}

void reference_experts(const expert_case_t *c, const double *x, double *out) {
  int rows = (int)expert_rows(c), width = c->width;
  const double *residual = x + rows * width, *gate = residual + rows * width;
  const double *experts = gate + c->experts * width;
  expert_choice_t *choices = malloc(sizeof *choices * expert_rows(c) * (size_t)c->top_k);
  reference_route(c, x, gate, choices, out + rows * width);
  for (int row = 0; row < rows; row++) {
    const double *in = x + row * width;
    double *to = out + row * width;
    for (int i = 0; i < width; i++) to[i] = residual[row * width + i];
    for (int k = 0; k < c->top_k; k++) {
      const expert_choice_t *choice = &choices[row * c->top_k + k];
      add_mlp(c, in, experts, choice->expert, choice->kept ? choice->weight : 0, to);
    }
  }
  free(choices);
}

double expert_deviation(const expert_case_t *c) {
  return c->width < 32 ? 1 : 0.25;
}

uint64_t expert_seed(const expert_case_t *c, train_dtype_t dtype, size_t between) {
  size_t ins = expert_rows(c) * (size_t)c->width + between, gates = (size_t)(c->experts * c->width);
  float *x = malloc(sizeof *x * (ins + gates));
  double *wide = malloc(sizeof *wide * (ins + gates)), losses[2], margin = 0;
  expert_choice_t *choices = malloc(sizeof *choices * expert_rows(c) * (size_t)c->top_k);
  uint64_t seed = 0;
  while (margin < MARGIN) {
    random_fill(++seed, expert_deviation(c), ins + gates, x);
    train_dtype_narrow(dtype, x, ins + gates, x);
    train_dtype_widen(dtype, x, ins + gates, x);
    for (size_t i = 0; i < ins + gates; i++) wide[i] = (double)x[i];
    margin = reference_route(c, wide, wide + ins, choices, losses);
  }
  free(x), free(wide), free(choices);
  return seed;
}
