/*
 * The experts of a mixture: rows are copied to the slots that a router gave them (router.h), where
 * rows of the same expert are consecutive; each expert's linear layers are applied to its rows; the
 * results are weighted and added to the residual stream. Rows whose choices are all dropped pass
 * through the residual alone.
 *
 * All arrays are as ops.h says. Results are bit-identical for any number of threads, and do not
 * depend on what slots contain that belong to no row.
 */
#ifndef LIBTRAIN_OPS_EXPERTS_H
#define LIBTRAIN_OPS_EXPERTS_H

#include "libtrain/ops/router.h"

/* Good for router->align: products have few different sizes, each of which needs a kernel. */
#define TRAIN_EXPERT_ALIGN 16

/* Arrays of slots: `counts[e]` rows of expert e from starts[e] on. The slots after them, up to
 * starts[e + 1], must be zero in operands of gradients of weights: dispatch and combine_backward
 * write zeros there. */
typedef struct train_expert_rows {
  int experts;
  const int32_t *starts; /* [experts + 1] */
  const int32_t *counts; /* [experts] */
} train_expert_rows_t;

/* Which rows of [rows, width] go to which slots. */
typedef struct train_expert_slots {
  int rows, width, top_k;
  const int32_t *slots; /* [rows, top_k]; -1: none */
  const float *weights; /* [rows, top_k]; used by combine */
  train_expert_rows_t sorted;
} train_expert_slots_t;

static inline train_expert_slots_t train_expert_slots(const train_router_t *router,
                                                      const train_route_t *route, int rows) {
  return (train_expert_slots_t){.rows = rows,
                                .width = router->width,
                                .top_k = router->top_k,
                                .slots = route->slots,
                                .weights = route->weights,
                                .sorted = {router->experts, route->starts, route->counts}};
}

/* sorted[slot] = in[row] for each slot of a row; other slots = 0. */
void train_experts_dispatch(const train_exec_t *exec, const train_expert_slots_t *slots,
                            const void *in, void *sorted);
/* d_in[row] = the sum of d_sorted[slot], + d_in[row] if `add`. */
void train_experts_dispatch_backward(const train_exec_t *exec, const train_expert_slots_t *slots,
                                     const void *d_sorted, bool add, void *d_in);

/* out[row] = the sum of weight * sorted[slot], + residual[row] unless it is NULL. `out` may be
 * `residual`. */
void train_experts_combine(const train_exec_t *exec, const train_expert_slots_t *slots,
                           const void *sorted, const void *residual, void *out);
/* d_weights[row, choice] is 0 for choices without a slot. */
void train_experts_combine_backward(const train_exec_t *exec, const train_expert_slots_t *slots,
                                    const void *d_out, const void *sorted, void *d_sorted,
                                    float *d_weights);

/* The linear layer of each expert, applied to its slots: weight[experts, out_width, in_width],
 * bias[experts, out_width] or NULL. `active` as in linear_forward of ops.h. */
void train_experts_linear_forward(const train_exec_t *exec, const train_linear_t *linear,
                                  const train_expert_rows_t *rows, const void *in,
                                  const void *weight, const void *bias, void *out, void *active);
/* As linear_backward of ops.h. The gradients of an expert without rows are zero. d_in may be NULL,
 * and so may d_weight and d_bias together: they are not computed. */
void train_experts_linear_backward(const train_exec_t *exec, const train_linear_t *linear,
                                   const train_expert_rows_t *rows, const void *d_out,
                                   const void *in, const void *weight, const void *hidden,
                                   bool overwrite, void *d_in, float *d_weight, float *d_bias);

#endif
