/*
 * Sizes, memory and a reference in double precision for tests of mixtures of experts. The reference
 * has simple loops and shares no code with libtrain.
 */
#ifndef LIBTRAIN_TEST_EXPERT_CASES_H
#define LIBTRAIN_TEST_EXPERT_CASES_H

#include "libtrain/ops/router.h"
#include "reference.h"

/* A mixture of experts under test: whole sequences. */
typedef struct expert_case {
  int sequences, length, width, experts, top_k;
  double capacity_factor;
  float balance, z;
  int hidden_width;
} expert_case_t;

train_router_t expert_router(const expert_case_t *c);
train_batch_t expert_batch(const expert_case_t *c);
size_t expert_rows(const expert_case_t *c);

/* A route with all its arrays filled with -1; free it with expert_route_free. */
train_route_t expert_route(const train_router_t *router, const train_batch_t *batch);
void expert_route_free(train_route_t *route);

/* What the reference decides for a row. */
typedef struct expert_choice {
  int expert;
  double weight;
  bool kept;
} expert_choice_t;

/* Decides choices[rows, top_k]; losses[2] are the balance and z losses, as sums over rows. Returns
 * the least difference between a logit that was chosen and the next one. */
double reference_route(const expert_case_t *c, const double *in, const double *gate,
                       expert_choice_t *choices, double losses[2]);

/* The layer's result, then its balance and z losses. x: in, residual, then the tensors in the
 * order of the experts' tensors with the gate before them. */
void reference_experts(const expert_case_t *c, const double *x, double *out);

/* The standard deviation of inputs: few logits are large. */
double expert_deviation(const expert_case_t *c);

/* A seed whose normal values, rounded to the type, make clear choices as inputs [rows *
 * width] and, `between` elements behind them, as gate: finite differences do not change them. */
uint64_t expert_seed(const expert_case_t *c, train_dtype_t dtype, size_t between);

#endif
