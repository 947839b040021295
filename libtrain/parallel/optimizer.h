/*
 * AdamW (Loshchilov and Hutter 2019) on any range of the flat parameter space, in every precision,
 * with weight decay on matrices only; gradient clipping by global norm; and the learning rate
 * schedule.
 */
#ifndef LIBTRAIN_PARALLEL_OPTIMIZER_H
#define LIBTRAIN_PARALLEL_OPTIMIZER_H

#include <stddef.h>
#include <stdint.h>

#include "libtrain/common/pool.h"
#include "libtrain/common/precision.h"
#include "libtrain/model/layout.h"

typedef struct train_adamw {
  float beta1, beta2, epsilon, weight_decay;
} train_adamw_t;

#define TRAIN_ADAMW_INIT \
  { 0.9f, 0.95f, 1e-8f, 0.1f }

/* The arrays of a range of the flat space, each with only the elements of the range. Gradients and
 * moments are float32. */
typedef struct train_adamw_arrays {
  train_precision_t precision; /* the types of parameters and weights */
  const float *gradients;
  void *parameters;
  void *weights; /* the rounded copy of the parameters; NULL if the precision has none */
  float *first_moments, *second_moments;
} train_adamw_arrays_t;

/* Optimizer step number `step`, counted from 1, for the parameters `first` to first + count - 1 of
 * the flat space. Gradients are multiplied by gradient_scale; parameters and moments are updated in
 * place, and the weights are set to the new parameters, rounded to nearest. Computes in float32.
 * With stochastic rounding (Gupta et al. 2015) new parameters are rounded to one of the two nearest
 * values of their type with the probabilities that keep the mean; which one depends only on the
 * step and the parameter's place in the flat space. */
void train_adamw_step(train_pool_t *pool, const train_adamw_t *adamw, const train_layout_t *layout,
                      size_t first, size_t count, const train_adamw_arrays_t *arrays,
                      float gradient_scale, float rate, uint64_t step);

/* The sum of squares of values[count] in double, in an order that depends only on count. The
 * gradient norm is the square root of the sum over all gradients. */
double train_square_sum(train_pool_t *pool, const float *values, size_t count);

/* The factor that scales gradients with this norm to a norm of at most `max`. */
float train_gradient_clip(double norm, double max);

/* The learning rate when the fraction `progress` of the run, 0 to 1, is done: linear warmup to
 * `peak` over the fraction `warmup` of the run, then cosine decay to peak / 10. */
float train_learning_rate_at(double peak, double warmup, double progress);

#endif
