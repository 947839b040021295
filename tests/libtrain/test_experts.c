/*
 * The mixture of experts of a block on one rank: results and gradients against the reference, with
 * and without dropping; memory full of NaNs before each pass; the same bits from any number of
 * threads; narrow types.
 */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/status.h"
#include "expert_cases.h"
#include "libtrain/model/experts.h"
#include "op_cases.h"

static const expert_case_t *reference_case; /* of reference_layer */

static void reference_layer(const shape_t *shape, const double *x, double *out) {
  (void)shape;
  reference_experts(reference_case, x, out);
}

static train_router_t router_of(const expert_case_t *c) {
  const train_router_t router = expert_router(c);
  return train_experts_router(&router, 1);
}

static train_experts_sizes_t sizes_of(const expert_case_t *c, train_dtype_t dtype) {
  return (train_experts_sizes_t){.rows = (int)expert_rows(c),
                                 .sequences = c->sequences,
                                 .length = c->length,
                                 .expert_ranks = 1,
                                 .context_ranks = 1,
                                 .hidden_width = c->hidden_width,
                                 .dtype = dtype,
                                 .training = true};
}

/* The tensors, in the order of the reference. */
enum { GATE, HIDDEN_WEIGHT, HIDDEN_BIAS, OUTPUT_WEIGHT, OUTPUT_BIAS, TENSORS };

/* The offset of a tensor among the tensors; for TENSORS their size. */
static size_t tensor_at(const expert_case_t *c, int tensor) {
  size_t experts = (size_t)c->experts, width = (size_t)c->width, hidden = (size_t)c->hidden_width;
  const size_t sizes[] = {width, hidden * width, hidden, width * hidden, width};
  size_t at = 0;
  for (int i = 0; i < tensor; i++) at += experts * sizes[i];
  return at;
}

/* What a forward and a backward pass leave, in one block of memory. */
typedef struct outcome {
  size_t ins, tensors, outs; /* elements of in, tensors and out with the two losses */
  float *out, *d_in, *d_tensors, *d_twice;
  size_t bytes;
} outcome_t;

static outcome_t outcome_of(const expert_case_t *c) {
  outcome_t o = {.ins = expert_rows(c) * (size_t)c->width, .tensors = tensor_at(c, TENSORS)};
  o.outs = o.ins + 2;
  o.bytes = sizeof(float) * (o.outs + o.ins + 2 * o.tensors);
  o.out = malloc(o.bytes);
  memset(o.out, 0xff, o.bytes);
  o.d_in = o.out + o.outs;
  o.d_tensors = o.d_in + o.ins;
  o.d_twice = o.d_tensors + o.tensors;
  return o;
}

static void *filled(size_t bytes) {
  void *memory = aligned_alloc(BASE_CACHE_LINE, base_round_up(bytes, BASE_CACHE_LINE));
  memset(memory, 0xff, bytes);
  return memory;
}

/* The layer with its tensors in x behind in and residual. */
static train_experts_t layer_of(const expert_case_t *c, const train_exec_t *exec, const void *x,
                                float *gradients) {
  const void *tensors[TENSORS];
  for (int i = 0; i < TENSORS; i++) {
    size_t at = 2 * expert_rows(c) * (size_t)c->width + tensor_at(c, i);
    tensors[i] = train_dtype_const_at(exec->dtype, x, at);
  }
  return (train_experts_t){.exec = exec,
                           .router = router_of(c),
                           .batch = expert_batch(c),
                           .hidden_width = c->hidden_width,
                           .first_tensor_rank = true,
                           .gate = tensors[GATE],
                           .hidden_weight = tensors[HIDDEN_WEIGHT],
                           .hidden_bias = tensors[HIDDEN_BIAS],
                           .output_weight = tensors[OUTPUT_WEIGHT],
                           .output_bias = tensors[OUTPUT_BIAS],
                           .d_hidden_weight = gradients + tensor_at(c, HIDDEN_WEIGHT),
                           .d_hidden_bias = gradients + tensor_at(c, HIDDEN_BIAS),
                           .d_output_weight = gradients + tensor_at(c, OUTPUT_WEIGHT),
                           .d_output_bias = gradients + tensor_at(c, OUTPUT_BIAS)};
}

/* The arrays of a layer, full of NaNs. */
typedef struct arrays {
  void *route, *activated, *buffered;
  train_experts_activations_t activations;
  train_experts_buffers_t buffers;
} arrays_t;

static arrays_t arrays_of(const train_router_t *router, const train_experts_sizes_t *sizes) {
  arrays_t a = {.route = filled(train_experts_carve_route(router, sizes, NULL, NULL)),
                .activated = filled(train_experts_carve(router, sizes, NULL, NULL)),
                .buffered = filled(train_experts_carve_buffers(router, sizes, NULL, NULL))};
  train_experts_carve_route(router, sizes, a.route, &a.activations);
  train_experts_carve(router, sizes, a.activated, &a.activations);
  train_experts_carve_buffers(router, sizes, a.buffered, &a.buffers);
  return a;
}

static void arrays_free(arrays_t *a) {
  free(a->route), free(a->activated), free(a->buffered);
}

static void run_backward(const train_experts_t *layer, const arrays_t *a, const void *x,
                         const void *d, bool overwrite, void *d_in, float *gradients) {
  train_experts_backward(layer, d, overwrite, &a->activations, &a->buffers);
  train_experts_input_backward(layer, x, 0.5f, overwrite, &a->activations, &a->buffers, false, d_in,
                               gradients);
}

static outcome_t run_layer(const expert_case_t *c, const train_exec_t *exec, const void *x,
                           const void *d) {
  const train_router_t router = router_of(c);
  const train_experts_sizes_t sizes = sizes_of(c, exec->dtype);
  outcome_t o = outcome_of(c);
  arrays_t a = arrays_of(&router, &sizes);
  void *wide = filled(o.ins * sizeof(float));
  cr_assert_leq(train_experts_scratch(&router, &sizes), 4000000);
  train_experts_t layer = layer_of(c, exec, x, o.d_tensors);
  const train_router_result_t result = train_experts_route(&layer, x, &a.activations);
  train_experts_forward(&layer, x, &a.activations, &a.buffers);
  train_experts_combine_forward(&layer, &a.activations, train_dtype_const_at(exec->dtype, x, o.ins),
                                wide);
  train_dtype_widen(exec->dtype, wide, o.ins, o.out);
  o.out[o.ins] = (float)result.balance;
  o.out[o.ins + 1] = (float)result.z;
  run_backward(&layer, &a, x, d, true, wide, o.d_tensors);
  memcpy(o.d_twice, o.d_tensors, o.tensors * sizeof(float));
  layer = layer_of(c, exec, x, o.d_twice);
  memset(a.activated, 0xff, train_experts_carve(&router, &sizes, NULL, NULL));
  train_experts_forward(&layer, x, &a.activations, &a.buffers); /* recomputes */
  run_backward(&layer, &a, x, d, false, wide, o.d_twice);
  train_dtype_widen(exec->dtype, wide, o.ins, o.d_in);
  arrays_free(&a), free(wide);
  return o;
}

static void check_threads(const expert_case_t *c, const outcome_t *expected, const void *x,
                          const void *d, train_dtype_t dtype) {
  for (int threads = 2; threads <= 4; threads++) {
    train_pool_t *pool;
    cr_assert_eq(train_pool_create(threads, &pool), COLL_OK);
    outcome_t o = run_layer(c, op_exec_with(pool, dtype), x, d);
    cr_assert_arr_eq(o.out, expected->out, o.bytes, "other bits from %d threads", threads);
    free(o.out);
    train_pool_destroy(pool);
  }
}

/* Gradients in the order of x: in, residual, tensors. The residual's gradient is d itself. */
static float *gradients_of(const outcome_t *o, const float *d) {
  float *all = malloc(sizeof *all * (2 * o->ins + o->tensors));
  memcpy(all, o->d_in, o->ins * sizeof *all);
  memcpy(all + o->ins, d, o->ins * sizeof *all);
  memcpy(all + 2 * o->ins, o->d_tensors, o->tensors * sizeof *all);
  return all;
}

/* Random inputs, which are rounded to the type, and gradients of outputs. */
typedef struct inputs {
  size_t count;
  float *x, *d;
} inputs_t;

static inputs_t inputs_of(const expert_case_t *c, train_dtype_t dtype) {
  size_t ins = expert_rows(c) * (size_t)c->width;
  inputs_t i = {.count = 2 * ins + tensor_at(c, TENSORS), .d = op_random(99, 1, ins + 2)};
  i.x = op_random(expert_seed(c, dtype, ins), expert_deviation(c), i.count);
  for (size_t j = 2 * ins + tensor_at(c, 1); j < i.count; j++) i.x[j] *= 0.3f;
  i.d[ins] = c->balance / 2; /* as the gradients are scaled by 0.5 */
  i.d[ins + 1] = c->z / 2;
  return i;
}

static void check_case(const expert_case_t *c, size_t stride) {
  const shape_t unused = {0};
  const inputs_t i = inputs_of(c, TRAIN_FLOAT32);
  reference_case = c;
  outcome_t o = run_layer(c, op_exec(NULL), i.x, i.d);
  float *gradients = gradients_of(&o, i.d);
  check_forward("experts", reference_layer, &unused, i.x, i.count, o.out, o.outs);
  check_gradients("experts", reference_layer, &unused, i.x, i.count, stride, i.d, o.outs,
                  gradients);
  for (size_t j = 0; j < o.tensors; j++) {
    double once = (double)o.d_tensors[j];
    cr_assert_float_eq((double)o.d_twice[j], 2 * once, 2e-5 * (1 + fabs(once)),
                       "gradient[%zu] is %g when added to %g", j, (double)o.d_twice[j], once);
  }
  check_threads(c, &o, i.x, i.d, TRAIN_FLOAT32);
  free(o.out), free(gradients), free(i.x), free(i.d);
}

/* Columns: sequences, length, width, experts, top-k, capacity factor, balance, z, hidden width. */
Test(experts, top_1) {
  check_case(&(expert_case_t){2, 9, 5, 4, 1, 0, 0, 0, 7}, 1);
  check_case(&(expert_case_t){2, 9, 5, 4, 1, 1, 0.5f, 0.25f, 7}, 1);
  check_case(&(expert_case_t){2, 9, 5, 4, 1, 0.5, 0.5f, 0.25f, 7}, 1);
}

Test(experts, top_2) {
  check_case(&(expert_case_t){2, 9, 5, 4, 2, 0, 0, 0, 7}, 1);
  check_case(&(expert_case_t){2, 9, 5, 4, 2, 1, 0.5f, 0.25f, 7}, 1);
  check_case(&(expert_case_t){2, 9, 5, 4, 2, 0.3, 0.5f, 0.25f, 7}, 1);
}

/* Several tiles of a product, gradients summed over more rows than at once, blocks of columns. */
Test(experts, large_sizes) {
  check_case(&(expert_case_t){1, 60, 530, 3, 2, 1, 0.5f, 0.25f, 20}, 4001);
  check_case(&(expert_case_t){2, 700, 6, 2, 1, 0, 0.1f, 0.01f, 410}, 401);
}

/* More experts than the products of a run, and most of them without rows. */
Test(experts, many_experts) {
  check_case(&(expert_case_t){1, 12, 16, 70, 2, 0, 0.5f, 0.25f, 3}, 31);
}

/* ---- narrow types ---- */

static void *narrowed(train_dtype_t dtype, float *x, size_t count) {
  void *narrow = malloc(count * sizeof *x);
  train_dtype_narrow(dtype, x, count, narrow);
  train_dtype_widen(dtype, narrow, count, x);
  return narrow;
}

/* Compares with a bound in units of the type's rounding error, relative to the values' size. */
static void check_near(const char *part, train_dtype_t dtype, double units, const double *expected,
                       const float *got, size_t count) {
  double unit = dtype == TRAIN_BFLOAT16 ? 0x1p-8 : 0x1p-11, squares = 0;
  for (size_t i = 0; i < count; i++) squares += expected[i] * expected[i] / (double)count;
  for (size_t i = 0; i < count; i++) {
    double bound = units * unit * (sqrt(squares) + fabs(expected[i])) + 1e-4;
    cr_assert_float_eq((double)got[i], expected[i], bound, "%s: %s[%zu] is %g, not %g +- %g",
                       train_dtype_name(dtype), part, i, (double)got[i], expected[i], bound);
  }
}

static void check_narrow(const expert_case_t *c, train_dtype_t dtype) {
  enum { SAMPLES = 60 };
  const shape_t unused = {0};
  const inputs_t i = inputs_of(c, dtype);
  size_t ins = expert_rows(c) * (size_t)c->width;
  void *x = narrowed(dtype, i.x, i.count), *d = narrowed(dtype, i.d, ins);
  double *wide = malloc(sizeof *wide * i.count), *out = malloc(sizeof *out * (ins + 2));
  double expected[SAMPLES];
  float got[SAMPLES];
  for (size_t j = 0; j < i.count; j++) wide[j] = (double)i.x[j];
  reference_case = c;
  outcome_t o = run_layer(c, op_exec_with(NULL, dtype), x, d);
  float *gradients = gradients_of(&o, i.d);
  reference_layer(&unused, wide, out);
  check_near("out", dtype, 4, out, o.out, ins);
  for (size_t j = 0; j < SAMPLES; j++) {
    size_t at = j * (ins / SAMPLES);
    expected[j] = reference_gradient(reference_layer, &unused, wide, at, i.d, o.outs, out);
    got[j] = gradients[at];
  }
  check_near("d_in", dtype, 8, expected, got, SAMPLES);
  for (size_t j = 0; j < SAMPLES; j++) {
    size_t at = i.count - 1 - j * (o.tensors / SAMPLES);
    expected[j] = reference_gradient(reference_layer, &unused, wide, at, i.d, o.outs, out);
    got[j] = gradients[at];
  }
  check_near("d_tensor", dtype, 8, expected, got, SAMPLES);
  check_threads(c, &o, x, d, dtype);
  free(o.out), free(gradients), free(i.x), free(i.d);
  free(x), free(d), free(wide), free(out);
}

Test(experts, narrow_types) {
  const expert_case_t c = {2, 9, 16, 4, 2, 1, 0.5f, 0.25f, 20};
  check_narrow(&c, TRAIN_BFLOAT16);
  check_narrow(&c, TRAIN_FLOAT16);
}
