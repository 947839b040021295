/*
 * Reference operators and model in double precision with simple loops, and two comparisons: of
 * values, and of gradients with central differences. Shares no code with libtrain.
 */
#ifndef TESTS_LIBTRAIN_REFERENCE_H
#define TESTS_LIBTRAIN_REFERENCE_H

#include <stddef.h>
#include <stdint.h>

#include "libtrain/model/model.h"

/* Sizes of an operator under test; each operator uses some of them. */
typedef struct shape {
  int sequences, length, heads, width, out_width, classes;
  const int32_t *tokens; /* or targets */
} shape_t;

/* Computes out[] from the operator's inputs, which are concatenated in x[]. */
typedef void reference_t(const shape_t *shape, const double *x, double *out);

void reference_embedding(const shape_t *shape, const double *x,
                         double *out); /* tokens, positions */
void reference_layernorm(const shape_t *shape, const double *x, double *out); /* in, weight, bias */
void reference_linear(const shape_t *shape, const double *x, double *out);    /* in, weight, bias */
void reference_gelu(const shape_t *shape, const double *x, double *out);
void reference_attention(const shape_t *shape, const double *x, double *out);     /* qkv */
void reference_cross_entropy(const shape_t *shape, const double *x, double *out); /* logits */
void reference_linear_and_residual(const shape_t *shape, const double *x,
                                   double *out); /* in, weight, bias, residual */
void reference_bias_residual(const shape_t *shape, const double *x,
                             double *out); /* in, bias, residual of out_width */
void reference_gelu_and_linear(const shape_t *shape, const double *x,
                               double *out); /* in, weight, bias */
void reference_classifier(const shape_t *shape, const double *x, double *out); /* in, table */

/* The summed loss of the model with these parameters, in the model's layout. */
double reference_model_loss(const train_model_config_t *config, const double *parameters,
                            const int32_t *tokens, const int32_t *targets, int sequences,
                            int length);

/* Normal random values with that standard deviation; a function of the seed. */
void random_fill(uint64_t seed, double deviation, size_t count, float *values);

/* Checks that out[out_count] equals the reference's result for x[in_count]. */
void check_forward(const char *what, reference_t *reference, const shape_t *shape, const float *x,
                   size_t in_count, const float *out, size_t out_count);

/* The gradient of the sum of weights[i] * out[i] with respect to x[i], a central difference. x[i]
 * is restored; out[out_count] is overwritten. */
double reference_gradient(reference_t *reference, const shape_t *shape, double *x, size_t i,
                          const float *weights, size_t out_count, double *out);

/* Checks that gradients[in_count] equals d (sum of weights[i] * out[i]) / d x for every stride-th
 * element; with a sanitizer, for fewer (harness/sample.h). */
void check_gradients(const char *what, reference_t *reference, const shape_t *shape, const float *x,
                     size_t in_count, size_t stride, const float *weights, size_t out_count,
                     const float *gradients);

#endif
