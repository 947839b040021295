/*
 * The operators of the host backend in one form, each with its reference, so that all are compared
 * alike.
 */
#ifndef LIBTRAIN_TEST_OP_CASES_H
#define LIBTRAIN_TEST_OP_CASES_H

#include "libtrain/ops/ops.h"
#include "reference.h"

/* An operator with its inputs concatenated in the reference's order: first those whose gradients
 * are overwritten, then from `parameters` on those whose gradients may be accumulated. */
typedef struct op_case {
  const char *name;
  reference_t *reference;
  size_t ins, parameters, outs;
  double deviation; /* standard deviation of the inputs */
  /* Forward to out[outs], backward from d[outs] to g[parameters] and g_parameters[ins -
   * parameters]. */
  void (*run)(const train_exec_t *exec, const shape_t *s, const void *x, const void *d,
              bool overwrite, void *out, void *g, float *g_parameters);
  bool float32_out; /* for any type of inputs */
} op_case_t;

/* Runs operators; valid until the next call. op_exec: in float32. */
const train_exec_t *op_exec_with(train_pool_t *pool, train_dtype_t dtype);
const train_exec_t *op_exec(train_pool_t *pool);

/* Normally distributed; free() it. */
float *op_random(uint64_t seed, double deviation, size_t count);

/* All shapes have the same tokens, which are to be filled for the shape that is run next. */
shape_t op_shape(int sequences, int length, int heads, int width, int out_width, int classes);
void op_fill_tokens(const shape_t *s);
size_t op_rows(const shape_t *s);

op_case_t op_case_embedding(const shape_t *s);
op_case_t op_case_layernorm(const shape_t *s);
op_case_t op_case_linear(const shape_t *s);
op_case_t op_case_linear_and_residual(const shape_t *s);
op_case_t op_case_bias_residual(const shape_t *s);
op_case_t op_case_gelu_and_linear(const shape_t *s);
op_case_t op_case_attention(const shape_t *s);
op_case_t op_case_attention_segments(const shape_t *s);
op_case_t op_case_classifier(const shape_t *s);

#endif
