/*
 * Linear layers cut by output or by input features give together what the uncut layer gives, and
 * the halves of a backward pass the bits of the whole.
 */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "op_parts.h"

#define ROWS 70
#define IN_WIDTH 156
#define OUT_WIDTH 204

static const size_t ins = (size_t)ROWS * IN_WIDTH, outs = (size_t)ROWS * OUT_WIDTH,
                    weights = (size_t)OUT_WIDTH * IN_WIDTH;

/* A layer's arrays; `out` and what follows it are computed. d_out is the gradient of `out`. */
typedef struct layer {
  train_dtype_t dtype;
  train_linear_t linear;
  void *in, *weight, *bias, *residual, *d_out;
  void *out, *d_in;
  float *d_weight, *d_bias;
} layer_t;

static layer_t make_layer(train_dtype_t dtype) {
  return (layer_t){.dtype = dtype,
                   .linear = {.in_width = IN_WIDTH, .out_width = OUT_WIDTH},
                   .in = parts_random(dtype, 1, 1, ins),
                   .weight = parts_random(dtype, 2, 0.1, weights),
                   .bias = parts_random(dtype, 3, 1, OUT_WIDTH),
                   .residual = parts_random(dtype, 4, 1, outs),
                   .d_out = parts_random(dtype, 5, 1, outs),
                   .out = calloc(outs, sizeof(float)),
                   .d_in = calloc(ins, sizeof(float)),
                   .d_weight = calloc(weights, sizeof(float)),
                   .d_bias = calloc(OUT_WIDTH, sizeof(float))};
}

static void free_layer(layer_t *l) {
  free(l->in), free(l->weight), free(l->bias), free(l->residual), free(l->d_out);
  free(l->out), free(l->d_in), free(l->d_weight), free(l->d_bias);
}

static void run_layer(const train_exec_t *exec, const layer_t *l, const void *residual) {
  train_ops_host.linear_forward(exec, &l->linear, l->in, ROWS, l->weight, l->bias, residual, l->out,
                                NULL);
  train_ops_host.linear_backward(exec, &l->linear, l->d_out, l->in, ROWS, l->weight, NULL, true,
                                 l->d_in, l->d_weight, l->d_bias);
}

/* Output features `part` of the layer: its outputs are joined, its d_in is added to a sum. */
static void run_columns(const train_exec_t *exec, const layer_t *whole, part_t part,
                        const layer_t *joined, float *d_in_sum) {
  size_t first = (size_t)part.first, count = (size_t)part.count;
  layer_t own = *whole;
  own.linear.out_width = part.count;
  own.weight = train_dtype_at(whole->dtype, whole->weight, first * IN_WIDTH);
  own.bias = train_dtype_at(whole->dtype, whole->bias, first);
  own.d_out = parts_cut(whole->dtype, whole->d_out, ROWS, OUT_WIDTH, part);
  own.out = calloc((size_t)ROWS * count, sizeof(float));
  own.d_in = calloc(ins, sizeof(float));
  own.d_weight = joined->d_weight + first * IN_WIDTH;
  own.d_bias = joined->d_bias + first;
  run_layer(exec, &own, NULL);
  parts_join(whole->dtype, own.out, ROWS, OUT_WIDTH, part, joined->out);
  parts_add(whole->dtype, own.d_in, ins, d_in_sum);
  free(own.d_out), free(own.out), free(own.d_in);
}

static void check_columns(train_dtype_t dtype, int parts) {
  layer_t whole = make_layer(dtype), joined = make_layer(dtype);
  const train_exec_t *exec = op_exec_with(NULL, dtype);
  float *d_in_sum = calloc(ins, sizeof *d_in_sum);
  run_layer(exec, &whole, NULL);
  for (int i = 0; i < parts; i++) {
    run_columns(exec, &whole, part_of(OUT_WIDTH, parts, i), &joined, d_in_sum);
  }
  train_dtype_narrow(dtype, d_in_sum, ins, joined.d_in);
  parts_check("out", dtype, 1, joined.out, whole.out, outs);
  parts_check("d_in", dtype, 1, joined.d_in, whole.d_in, ins);
  parts_check_floats("d_weight", TRAIN_FLOAT32, 1, joined.d_weight, whole.d_weight, weights);
  cr_assert_arr_eq(joined.d_bias, whole.d_bias, OUT_WIDTH * sizeof(float));
  free_layer(&whole), free_layer(&joined), free(d_in_sum);
}

/* Input features `part` of the layer: its outputs are added to a sum, its d_in is joined. */
static void run_rows(const train_exec_t *exec, const layer_t *whole, part_t part,
                     const layer_t *joined, float *out_sum) {
  train_dtype_t dtype = whole->dtype;
  size_t count = (size_t)part.count;
  layer_t own = *whole;
  own.linear.in_width = part.count;
  own.weight = parts_cut(dtype, whole->weight, OUT_WIDTH, IN_WIDTH, part);
  own.bias = NULL, own.d_bias = NULL;
  own.in = parts_cut(dtype, whole->in, ROWS, IN_WIDTH, part);
  own.out = calloc(outs, sizeof(float));
  own.d_in = calloc((size_t)ROWS * count, sizeof(float));
  own.d_weight = calloc((size_t)OUT_WIDTH * count, sizeof(float));
  run_layer(exec, &own, NULL);
  parts_add(dtype, own.out, outs, out_sum);
  parts_join(dtype, own.d_in, ROWS, IN_WIDTH, part, joined->d_in);
  parts_join(TRAIN_FLOAT32, own.d_weight, OUT_WIDTH, IN_WIDTH, part, joined->d_weight);
  free(own.weight), free(own.in), free(own.out), free(own.d_in), free(own.d_weight);
}

static void check_rows(train_dtype_t dtype, int parts) {
  layer_t whole = make_layer(dtype), joined = make_layer(dtype);
  const train_exec_t *exec = op_exec_with(NULL, dtype);
  float *out_sum = calloc(outs, sizeof *out_sum);
  run_layer(exec, &whole, whole.residual);
  for (int i = 0; i < parts; i++) {
    run_rows(exec, &whole, part_of(IN_WIDTH, parts, i), &joined, out_sum);
  }
  train_dtype_narrow(dtype, out_sum, outs, joined.out);
  train_ops_host.bias_residual(exec, joined.out, whole.bias, whole.residual, ROWS, OUT_WIDTH,
                               joined.out);
  train_ops_host.bias_backward(exec, whole.d_out, ROWS, OUT_WIDTH, true, joined.d_bias);
  parts_check("out", dtype, 2, joined.out, whole.out, outs);
  parts_check("d_in", dtype, 1, joined.d_in, whole.d_in, ins);
  parts_check_floats("d_weight", TRAIN_FLOAT32, 1, joined.d_weight, whole.d_weight, weights);
  cr_assert_arr_eq(joined.d_bias, whole.d_bias, OUT_WIDTH * sizeof(float));
  free_layer(&whole), free_layer(&joined), free(out_sum);
}

Test(ops, linear_cut_by_columns) {
  for (int dtype = 0; dtype < TRAIN_DTYPES; dtype++) {
    for (int parts = 1; parts <= 5; parts++) check_columns((train_dtype_t)dtype, parts);
  }
}

Test(ops, linear_cut_by_rows) {
  for (int dtype = 0; dtype < TRAIN_DTYPES; dtype++) {
    for (int parts = 1; parts <= 5; parts++) check_rows((train_dtype_t)dtype, parts);
  }
}

/* after_gelu: the layer's input is the output of GELU. */
static void check_halves(train_dtype_t dtype, bool overwrite, bool after_gelu) {
  layer_t whole = make_layer(dtype), halves = make_layer(dtype);
  const train_exec_t *exec = op_exec_with(NULL, dtype);
  void *hidden = after_gelu ? parts_random(dtype, 6, 1, ins) : NULL;
  train_ops_host.linear_backward(exec, &whole.linear, whole.d_out, whole.in, ROWS, whole.weight,
                                 hidden, overwrite, whole.d_in, whole.d_weight, whole.d_bias);
  train_ops_host.linear_backward(exec, &whole.linear, whole.d_out, NULL, ROWS, whole.weight, hidden,
                                 overwrite, halves.d_in, NULL, NULL);
  train_ops_host.linear_backward(exec, &whole.linear, whole.d_out, whole.in, ROWS, NULL, NULL,
                                 overwrite, NULL, halves.d_weight, halves.d_bias);
  cr_assert_arr_eq(whole.d_in, halves.d_in, ins * sizeof(float));
  cr_assert_arr_eq(whole.d_weight, halves.d_weight, weights * sizeof(float));
  cr_assert_arr_eq(whole.d_bias, halves.d_bias, OUT_WIDTH * sizeof(float));
  free_layer(&whole), free_layer(&halves), free(hidden);
}

Test(ops, linear_backward_in_halves) {
  for (int dtype = 0; dtype < TRAIN_DTYPES; dtype++) {
    for (int i = 0; i < 4; i++) check_halves((train_dtype_t)dtype, i % 2 == 0, i / 2 == 0);
  }
}

/* With the product in float32, its bits; in place of either input too. */
static void check_bias_residual(const train_exec_t *exec, const layer_t *l, const void *bias,
                                const void *residual) {
  size_t bytes = outs * train_dtype_bytes(l->dtype);
  void *product = malloc(bytes), *apart = malloc(bytes), *in_residual = malloc(bytes);
  train_ops_host.linear_forward(exec, &l->linear, l->in, ROWS, l->weight, NULL, NULL, product,
                                NULL);
  train_ops_host.linear_forward(exec, &l->linear, l->in, ROWS, l->weight, bias, residual, l->out,
                                NULL);
  train_ops_host.bias_residual(exec, product, bias, residual, ROWS, OUT_WIDTH, apart);
  if (residual != NULL) {
    memcpy(in_residual, residual, bytes);
    train_ops_host.bias_residual(exec, product, bias, in_residual, ROWS, OUT_WIDTH, in_residual);
    cr_assert_arr_eq(in_residual, apart, bytes);
  }
  train_ops_host.bias_residual(exec, product, bias, residual, ROWS, OUT_WIDTH, product);
  cr_assert_arr_eq(product, apart, bytes);
  parts_check("out", l->dtype, 1, apart, l->out, outs); /* a narrow product was rounded */
  if (l->dtype == TRAIN_FLOAT32) cr_assert_arr_eq(apart, l->out, bytes);
  free(product), free(apart), free(in_residual);
}

Test(ops, bias_residual_equals_the_fused_operator) {
  for (int dtype = 0; dtype < TRAIN_DTYPES; dtype++) {
    layer_t l = make_layer((train_dtype_t)dtype);
    const train_exec_t *exec = op_exec_with(NULL, l.dtype);
    check_bias_residual(exec, &l, NULL, NULL);
    check_bias_residual(exec, &l, l.bias, NULL);
    check_bias_residual(exec, &l, l.bias, l.residual);
    free_layer(&l);
  }
}
