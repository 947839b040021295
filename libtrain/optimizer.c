/* A tensor at a time, so that decay is decided once per tensor and not once per element. */
#include "libtrain/optimizer.h"

#include <math.h>

#include "libtrain/ops/vector.h"

#define FINAL_RATE_FRACTION 0.1

/* The constants of one step; the bias corrections are folded into rate and inverse_root2. */
typedef struct adamw_step {
  float beta1, beta2, epsilon;
  float gradient_scale;
  float rate;          /* over 1 - beta1^step */
  float inverse_root2; /* 1 / sqrt(1 - beta2^step) */
} adamw_step_t;

TRAIN_VECTORIZED
static void step_range(const adamw_step_t *step, float decay, size_t count,
                       const float *restrict gradients, float *restrict parameters,
                       float *restrict first, float *restrict second) {
  const float beta1 = step->beta1, beta2 = step->beta2, epsilon = step->epsilon;
  const float scale = step->gradient_scale, rate = step->rate, root = step->inverse_root2;
  for (size_t i = 0; i < count; i++) {
    float g = gradients[i] * scale;
    float m = beta1 * first[i] + (1.0f - beta1) * g;
    float v = beta2 * second[i] + (1.0f - beta2) * g * g;
    first[i] = m;
    second[i] = v;
    parameters[i] -= decay * parameters[i] + rate * m / (sqrtf(v) * root + epsilon);
  }
}

void train_adamw_step(const train_adamw_t *adamw, const train_layout_t *layout, size_t first,
                      size_t count, const float *gradients, float gradient_scale, float rate,
                      uint64_t step, float *parameters, float *first_moments,
                      float *second_moments) {
  adamw_step_t constants = {
      .beta1 = adamw->beta1,
      .beta2 = adamw->beta2,
      .epsilon = adamw->epsilon,
      .gradient_scale = gradient_scale,
      .rate = (float)(rate / (1.0 - pow(adamw->beta1, (double)step))),
      .inverse_root2 = (float)(1.0 / sqrt(1.0 - pow(adamw->beta2, (double)step)))};
  for (int i = 0; i < layout->tensor_count; i++) {
    const train_tensor_t *tensor = &layout->tensors[i];
    size_t end = tensor->offset + (size_t)tensor->rows * (size_t)tensor->columns;
    size_t from = tensor->offset > first ? tensor->offset : first;
    size_t to = end < first + count ? end : first + count;
    if (from >= to) continue;
    size_t at = from - first;
    float decay = tensor->decays ? rate * adamw->weight_decay : 0.0f;
    step_range(&constants, decay, to - from, gradients + at, parameters + at, first_moments + at,
               second_moments + at);
  }
}

TRAIN_VECTORIZED
double train_gradient_norm(const float *gradients, size_t count) {
  double sum = 0;
#pragma omp simd reduction(+ : sum)
  for (size_t i = 0; i < count; i++) sum += (double)gradients[i] * (double)gradients[i];
  return sqrt(sum);
}

float train_gradient_clip(double norm, double most) {
  return norm > most ? (float)(most / norm) : 1.0f;
}

float train_rate_at(double peak, double warmup, double progress) {
  if (progress < warmup) return (float)(peak * progress / warmup);
  double fallen = warmup < 1 ? (progress - warmup) / (1 - warmup) : 1;
  double cosine = 0.5 * (1 + cos(3.141592653589793 * fallen));
  return (float)(peak * (FINAL_RATE_FRACTION + (1 - FINAL_RATE_FRACTION) * cosine));
}
