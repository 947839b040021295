/*
 * AdamW (Loshchilov and Hutter 2019) over a contiguous arena of parameters, with weight decay on
 * matrices only, and what steers it: the global gradient norm and the learning rate's course.
 */
#ifndef LIBTRAIN_OPTIMIZER_H
#define LIBTRAIN_OPTIMIZER_H

#include <stddef.h>
#include <stdint.h>

#include "libtrain/model.h"

typedef struct train_adamw {
  float beta1, beta2, epsilon, weight_decay;
} train_adamw_t;

#define TRAIN_ADAMW_INIT \
  { 0.9f, 0.95f, 1e-8f, 0.1f }

/* One step, the step-th from 1, over all tensors of the model. gradients are multiplied by
 * gradient_scale as they are read; first_moments and second_moments are updated in place. Every
 * array has model->parameter_count elements. */
void train_adamw_step(const train_adamw_t *adamw, train_model_t *model, const float *gradients,
                      float gradient_scale, float rate, uint64_t step, float *first_moments,
                      float *second_moments);

/* The Euclidean norm of gradients[count], summed in double in a fixed order. */
double train_gradient_norm(const float *gradients, size_t count);

/* What to multiply gradients of that norm with so that it is at most `most`. */
float train_gradient_clip(double norm, double most);

/* The learning rate when `progress` of the run, 0 to 1, is done: it rises linearly to peak over
 * the first `warmup` of the run and falls along half a cosine to peak / 10. */
float train_rate_at(double peak, double warmup, double progress);

#endif
