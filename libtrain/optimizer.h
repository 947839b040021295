/*
 * AdamW (Loshchilov and Hutter 2019) over any range of the flat parameter space, with weight
 * decay on matrices only, and what steers it: the global gradient norm and the learning rate's
 * course.
 */
#ifndef LIBTRAIN_OPTIMIZER_H
#define LIBTRAIN_OPTIMIZER_H

#include <stddef.h>
#include <stdint.h>

#include "libtrain/model/layout.h"
#include "libtrain/ops/pool.h"

typedef struct train_adamw {
  float beta1, beta2, epsilon, weight_decay;
} train_adamw_t;

#define TRAIN_ADAMW_INIT \
  { 0.9f, 0.95f, 1e-8f, 0.1f }

/* One step, the step-th from 1, over the parameters `first` to first + count - 1 of the flat space.
 * The four arrays have [count] elements, those of that range. gradients are multiplied by
 * gradient_scale as they are read; parameters and both moments are updated in place. */
void train_adamw_step(train_pool_t *pool, const train_adamw_t *adamw, const train_layout_t *layout,
                      size_t first, size_t count, const float *gradients, float gradient_scale,
                      float rate, uint64_t step, float *parameters, float *first_moments,
                      float *second_moments);

/* The sum of the squares of values[count], in double, in an order that follows from count alone;
 * the root of it, over all gradients, is their norm. */
double train_square_sum(train_pool_t *pool, const float *values, size_t count);

/* What to multiply gradients of that norm with so that it is at most `most`. */
float train_gradient_clip(double norm, double most);

/* The learning rate when `progress` of the run, 0 to 1, is done: it rises linearly to peak over
 * the first `warmup` of the run and falls along half a cosine to peak / 10. */
float train_rate_at(double peak, double warmup, double progress);

#endif
