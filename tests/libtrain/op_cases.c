/*
 * Each operator runs forward and backward through train_ops_host; its inputs are parts of one
 * array.
 */
#include "op_cases.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"

#define POSITIONS_MAX 600
#define SCRATCH 4000000

static int32_t tokens[POSITIONS_MAX];

const train_exec_t *op_exec_with(train_pool_t *pool, train_dtype_t dtype) {
  static float scratch[SCRATCH];
  static train_exec_t exec;
  train_gemm_destroy(exec.gemm);
  exec = (train_exec_t){.pool = pool, .dtype = dtype, .scratch = scratch};
  cr_assert_eq(train_gemm_create(pool, &exec.gemm), COLL_OK);
  return &exec;
}

const train_exec_t *op_exec(train_pool_t *pool) {
  return op_exec_with(pool, TRAIN_FLOAT32);
}

static const void *at(const train_exec_t *exec, const void *array, size_t index) {
  return train_dtype_const_at(exec->dtype, array, index);
}

size_t op_rows(const shape_t *s) {
  return (size_t)(s->sequences * s->length);
}

static train_batch_t batch_of(const shape_t *s) {
  return (train_batch_t){.sequences = s->sequences, .length = s->length};
}

static train_vocabulary_t vocabulary_of(const shape_t *s) {
  return (train_vocabulary_t){.count = s->classes};
}

float *op_random(uint64_t seed, double deviation, size_t count) {
  float *values = malloc(count * sizeof *values);
  random_fill(seed, deviation, count, values);
  return values;
}

void op_fill_tokens(const shape_t *s) {
  cr_assert_leq(op_rows(s), POSITIONS_MAX);
  for (size_t i = 0; i < op_rows(s); i++) tokens[i] = (int32_t)(i * i * 7 + i / 3) % s->classes;
}

shape_t op_shape(int sequences, int length, int heads, int width, int out_width, int classes) {
  return (shape_t){sequences, length, heads, width, out_width, classes, tokens};
}

static void run_embedding(const train_exec_t *exec, const shape_t *s, const void *x, const void *d,
                          bool overwrite, void *out, void *g, float *g_parameters) {
  size_t table = (size_t)(s->classes * s->width);
  const train_batch_t batch = batch_of(s);
  (void)g;
  if (overwrite)
    memset(g_parameters, 0, table * sizeof *g_parameters); /* normally overwritten by the
                                                            * classifier before */
  train_ops_host.embedding_forward(exec, &batch, tokens, vocabulary_of(s), x, at(exec, x, table),
                                   s->width, out);
  train_ops_host.embedding_backward(exec, &batch, tokens, vocabulary_of(s), d, s->width,
                                    s->length + 2, overwrite, g_parameters, g_parameters + table);
}

op_case_t op_case_embedding(const shape_t *s) {
  size_t tables = (size_t)((s->classes + s->length + 2) * s->width);
  return (op_case_t){"embedding", reference_embedding, tables, 0, op_rows(s) * (size_t)s->width,
                     1,           run_embedding,       false};
}

static void run_layernorm(const train_exec_t *exec, const shape_t *s, const void *x, const void *d,
                          bool overwrite, void *out, void *g, float *g_parameters) {
  size_t rows = op_rows(s), width = (size_t)s->width, ins = rows * width;
  float mean[POSITIONS_MAX], rstd[POSITIONS_MAX];
  train_ops_host.layernorm_forward(exec, x, at(exec, x, ins), at(exec, x, ins + width), (int)rows,
                                   s->width, out, mean, rstd);
  train_ops_host.layernorm_backward(exec, d, x, at(exec, x, ins), mean, rstd, (int)rows, s->width,
                                    true, overwrite, g, g_parameters, g_parameters + width);
}

op_case_t op_case_layernorm(const shape_t *s) {
  size_t ins = op_rows(s) * (size_t)s->width;
  return (op_case_t){
      "layernorm", reference_layernorm, ins + 2 * (size_t)s->width, ins, ins, 1, run_layernorm,
      false};
}

static train_linear_t linear_of(const shape_t *s) {
  return (train_linear_t){.in_width = s->width, .out_width = s->out_width};
}

static size_t weights_of(const shape_t *s) {
  return (size_t)(s->out_width * s->width);
}

static void run_linear(const train_exec_t *exec, const shape_t *s, const void *x, const void *d,
                       bool overwrite, void *out, void *g, float *g_parameters) {
  size_t ins = op_rows(s) * (size_t)s->width, weights = weights_of(s);
  const train_linear_t linear = linear_of(s);
  const void *weight = at(exec, x, ins);
  train_ops_host.linear_forward(exec, &linear, x, (int)op_rows(s), weight,
                                at(exec, x, ins + weights), NULL, out, NULL);
  train_ops_host.linear_backward(exec, &linear, d, x, (int)op_rows(s), weight, NULL, overwrite, g,
                                 g_parameters, g_parameters + weights);
}

static void run_linear_and_residual(const train_exec_t *exec, const shape_t *s, const void *x,
                                    const void *d, bool overwrite, void *out, void *g,
                                    float *g_parameters) {
  size_t ins = op_rows(s) * (size_t)s->width, outs = op_rows(s) * (size_t)s->out_width;
  size_t bias = ins + weights_of(s), residual = bias + (size_t)s->out_width;
  const train_linear_t linear = linear_of(s);
  run_linear(exec, s, x, d, overwrite, out, g, g_parameters);
  train_ops_host.linear_forward(exec, &linear, x, (int)op_rows(s), at(exec, x, ins),
                                at(exec, x, bias), at(exec, x, residual), out, NULL);
  float *d_residual = g_parameters + (residual - ins); /* the gradient of the residual stream */
  train_dtype_widen(exec->dtype, d, outs, d_residual);
  for (size_t i = 0; !overwrite && i < outs; i++) d_residual[i] *= 2;
}

static void run_bias_residual(const train_exec_t *exec, const shape_t *s, const void *x,
                              const void *d, bool overwrite, void *out, void *g,
                              float *g_parameters) {
  size_t outs = op_rows(s) * (size_t)s->out_width, width = (size_t)s->out_width;
  float *d_residual = g_parameters + width;
  train_ops_host.bias_residual(exec, x, at(exec, x, outs), at(exec, x, outs + width),
                               (int)op_rows(s), s->out_width, out);
  train_ops_host.bias_backward(exec, d, (int)op_rows(s), s->out_width, overwrite, g_parameters);
  memcpy(g, d, outs * train_dtype_bytes(exec->dtype));
  train_dtype_widen(exec->dtype, d, outs, d_residual);
  for (size_t i = 0; !overwrite && i < outs; i++) d_residual[i] *= 2;
}

static void run_gelu_and_linear(const train_exec_t *exec, const shape_t *s, const void *x,
                                const void *d, bool overwrite, void *out, void *g,
                                float *g_parameters) {
  size_t ins = op_rows(s) * (size_t)s->width, weights = weights_of(s), width = (size_t)s->width;
  const train_linear_t linear = linear_of(s), same = {.in_width = s->width, .out_width = s->width};
  float *active = malloc(2 * ins * sizeof *active), *hidden = active + ins;
  float *identity = calloc(width * width + width, sizeof *identity);
  for (size_t i = 0; i < width; i++) identity[i * width + i] = 1;
  train_dtype_narrow(exec->dtype, identity, width * width + width, identity);
  train_ops_host.linear_forward(exec, &same, x, (int)op_rows(s), identity,
                                at(exec, identity, width * width), NULL, hidden, active);
  cr_assert_arr_eq(hidden, x, ins * train_dtype_bytes(exec->dtype));
  train_ops_host.linear_forward(exec, &linear, active, (int)op_rows(s), at(exec, x, ins),
                                at(exec, x, ins + weights), NULL, out, NULL);
  train_ops_host.linear_backward(exec, &linear, d, active, (int)op_rows(s), at(exec, x, ins),
                                 hidden, overwrite, g, g_parameters, g_parameters + weights);
  free(active), free(identity);
}

op_case_t op_case_linear(const shape_t *s) {
  size_t ins = op_rows(s) * (size_t)s->width, outs = op_rows(s) * (size_t)s->out_width;
  return (op_case_t){"linear",
                     reference_linear,
                     ins + weights_of(s) + (size_t)s->out_width,
                     ins,
                     outs,
                     1,
                     run_linear,
                     false};
}

op_case_t op_case_linear_and_residual(const shape_t *s) {
  op_case_t op = op_case_linear(s);
  op.name = "linear, residual";
  op.reference = reference_linear_and_residual;
  op.ins += op.outs;
  op.run = run_linear_and_residual;
  return op;
}

op_case_t op_case_bias_residual(const shape_t *s) {
  size_t outs = op_rows(s) * (size_t)s->out_width;
  return (op_case_t){"bias, residual",
                     reference_bias_residual,
                     2 * outs + (size_t)s->out_width,
                     outs,
                     outs,
                     1,
                     run_bias_residual,
                     false};
}

op_case_t op_case_gelu_and_linear(const shape_t *s) {
  op_case_t op = op_case_linear(s);
  op.name = "GELU, linear";
  op.reference = reference_gelu_and_linear;
  op.deviation = 2;
  op.run = run_gelu_and_linear;
  return op;
}

static void run_attention(const train_exec_t *exec, const shape_t *s, const void *x, const void *d,
                          bool overwrite, void *out, void *g, float *g_parameters) {
  float log_sums[POSITIONS_MAX * 4];
  const train_batch_t batch = batch_of(s);
  (void)overwrite, (void)g_parameters;
  train_ops_host.attention_forward(exec, &batch, x, s->heads, s->width, out, log_sums);
  train_ops_host.attention_backward(exec, &batch, d, x, out, log_sums, s->heads, s->width, g);
}

op_case_t op_case_attention(const shape_t *s) {
  size_t outs = op_rows(s) * (size_t)s->width, ins = 3 * outs;
  return (op_case_t){"attention", reference_attention, ins, ins, outs, 1, run_attention, false};
}

/* Attention to keys `from` .. to - 1 of each sequence. */
static train_attention_segment_t segment_of(const train_exec_t *exec, const shape_t *s,
                                            const void *qkv, int from, int to) {
  size_t width = (size_t)s->width, row = (size_t)from * 3 * width;
  int stride = 3 * s->width;
  return (train_attention_segment_t){
      .queries = batch_of(s),
      .keys = {.sequences = s->sequences, .length = to - from, .first = from},
      .heads = s->heads,
      .head_width = s->width / s->heads,
      .query = {qkv, stride, 0},
      .key = {at(exec, qkv, row + width), stride, s->length},
      .value = {at(exec, qkv, row + 2 * width), stride, s->length}};
}

/* The gradients of keys or values (1, 2) of a segment; of queries (0) of all. */
static void store_segment(const train_exec_t *exec, const shape_t *s,
                          const train_attention_segment_t *a, int which, const float *gradients,
                          void *d_qkv) {
  const train_batch_t *batch = which == 0 ? &a->queries : &a->keys;
  size_t per_sequence = (size_t)(batch->length * s->width);
  const train_batch_t one = {.sequences = 1, .length = batch->length};
  for (int i = 0; i < s->sequences; i++) {
    size_t row = (size_t)(i * s->length + batch->first);
    train_ops_host.attention_segment_store(
        exec, &one, s->heads, a->head_width, gradients + (size_t)i * per_sequence,
        train_dtype_at(exec->dtype, d_qkv, (row * 3 + (size_t)which) * (size_t)s->width),
        3 * s->width);
  }
}

/* The later keys first, of which early queries see none. */
static void run_attention_segments(const train_exec_t *exec, const shape_t *s, const void *x,
                                   const void *d, bool overwrite, void *out, void *g,
                                   float *g_parameters) {
  size_t outs = op_rows(s) * (size_t)s->width, sums = op_rows(s) * (size_t)s->heads;
  int cut = (s->length + 1) / 3, ends[] = {s->length, cut};
  float *log_sums = calloc(4 * outs + 4 * sums, sizeof *log_sums), *d_sums = log_sums + sums;
  float *running = d_sums + sums, *d_query = running + outs + 2 * sums, *d_key = d_query + outs,
        *d_value = d_key + outs;
  train_attention_segment_t segments[2];
  (void)overwrite, (void)g_parameters;
  for (int i = 0; i < 2; i++) {
    segments[i] = segment_of(exec, s, x, i == 0 ? cut : 0, ends[i]);
    if (segments[i].keys.length == 0) continue;
    train_ops_host.attention_segment_forward(exec, &segments[i], i == 0, running);
  }
  train_ops_host.attention_segment_finish(exec, &segments[0], running, out, log_sums);
  train_ops_host.attention_segment_d_sums(exec, &segments[0], out, d, d_sums);
  for (int i = 0; i < 2; i++) {
    if (segments[i].keys.length == 0) continue;
    memset(d_key, 0, 2 * outs * sizeof *d_key);
    train_ops_host.attention_segment_backward(exec, &segments[i], d, log_sums, d_sums, d_query,
                                              d_key, d_value);
    store_segment(exec, s, &segments[i], 1, d_key, g);
    store_segment(exec, s, &segments[i], 2, d_value, g);
  }
  store_segment(exec, s, &segments[0], 0, d_query, g);
  free(log_sums);
}

op_case_t op_case_attention_segments(const shape_t *s) {
  op_case_t op = op_case_attention(s);
  op.name = "attention, segments";
  op.run = run_attention_segments;
  return op;
}

/* The reference returns the loss of each row, the operator their sum, with scaled gradients. */
static void sum_of_classifier(const shape_t *s, const double *x, double *out) {
  double losses[POSITIONS_MAX];
  reference_classifier(s, x, losses);
  out[0] = 0;
  for (size_t row = 0; row < op_rows(s); row++) out[0] += losses[row];
}

static void run_classifier(const train_exec_t *exec, const shape_t *s, const void *x, const void *d,
                           bool overwrite, void *out, void *g, float *g_parameters) {
  const void *table = at(exec, x, op_rows(s) * (size_t)s->width);
  float scale;
  train_dtype_widen(exec->dtype, d, 1, &scale);
  double loss =
      train_ops_host.classifier(exec, x, table, tokens, (int)op_rows(s), s->width, vocabulary_of(s),
                                NULL, scale, overwrite, g, g_parameters);
  double loss_only = train_ops_host.classifier(exec, x, table, tokens, (int)op_rows(s), s->width,
                                               vocabulary_of(s), NULL, 0, false, NULL, NULL);
  cr_assert_eq(loss, loss_only, "the loss without gradients is %.9g, not %.9g", loss_only, loss);
  *(float *)out = (float)loss;
}

op_case_t op_case_classifier(const shape_t *s) {
  size_t ins = op_rows(s) * (size_t)s->width;
  return (op_case_t){"classifier",
                     sum_of_classifier,
                     ins + (size_t)(s->classes * s->width),
                     ins,
                     1,
                     1.5,
                     run_classifier,
                     true};
}
