/*
 * The router of a mixture of experts: weights, losses and gradients against the reference; dropping
 * in hand-made cases; sequences whose rows are on several ranks; the same bits from any number of
 * threads; narrow types.
 */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "expert_cases.h"
#include "op_cases.h"

/* ---- against the reference ---- */

static const expert_case_t *reference_case; /* of reference_router */

/* in, gate -> weights[rows, top_k], 0 if dropped; balance loss; z loss. */
static void reference_router(const shape_t *shape, const double *x, double *out) {
  const expert_case_t *c = reference_case;
  size_t choices = expert_rows(c) * (size_t)c->top_k;
  expert_choice_t *decided = malloc(choices * sizeof *decided);
  (void)shape;
  reference_route(c, x, x + expert_rows(c) * (size_t)c->width, decided, out + choices);
  for (size_t i = 0; i < choices; i++) out[i] = decided[i].kept ? decided[i].weight : 0;
  free(decided);
}

/* What one forward and backward pass leaves. */
typedef struct outcome {
  size_t choices, ins, gates;
  float *out;    /* [choices + 2] as the reference's */
  float *d;      /* [ins + gates] */
  float *d_gate; /* [gates]: after a second pass that added */
  int32_t *slots, *starts;
} outcome_t;

static void outcome_free(outcome_t *o) {
  free(o->out), free(o->d), free(o->d_gate), free(o->slots), free(o->starts);
}

/* d_weights of dropped choices are 0, as the operators of experts.h make them. */
static float *kept_only(const float *d, const train_route_t *route, size_t choices) {
  float *kept = malloc(choices * sizeof *kept);
  for (size_t i = 0; i < choices; i++) kept[i] = route->slots[i] >= 0 ? d[i] : 0;
  return kept;
}

static void run_backward(const train_exec_t *exec, const expert_case_t *c,
                         const train_route_t *route, const void *x, const float *d, outcome_t *o) {
  const train_router_t router = expert_router(c);
  const train_batch_t batch = expert_batch(c);
  const void *gate = train_dtype_const_at(exec->dtype, x, o->ins);
  float *d_weights = kept_only(d, route, o->choices);
  void *d_in = calloc(o->ins, sizeof(float));
  memset(o->d_gate, 0xff, o->gates * sizeof(float));
  train_router_backward(exec, &router, &batch, route, x, gate, d_weights, 0.5f, true, d_in,
                        o->d_gate);
  train_dtype_widen(exec->dtype, d_in, o->ins, o->d);
  memcpy(o->d + o->ins, o->d_gate, o->gates * sizeof(float));
  train_router_backward(exec, &router, &batch, route, x, gate, d_weights, 0.5f, false, d_in,
                        o->d_gate);
  free(d_weights), free(d_in);
}

static outcome_t run_router(const train_exec_t *exec, const expert_case_t *c, const void *x,
                            const float *d) {
  const train_router_t router = expert_router(c);
  const train_batch_t batch = expert_batch(c);
  outcome_t o = {.choices = expert_rows(c) * (size_t)c->top_k,
                 .ins = expert_rows(c) * (size_t)c->width,
                 .gates = (size_t)(c->experts * c->width)};
  train_route_t route = expert_route(&router, &batch);
  o.out = malloc((o.choices + 2) * sizeof(float));
  o.d = malloc((o.ins + o.gates) * sizeof(float));
  o.d_gate = malloc(o.gates * sizeof(float));
  const train_router_result_t result = train_router_forward(
      exec, &router, &batch, x, train_dtype_const_at(exec->dtype, x, o.ins), NULL, NULL, &route);
  int64_t kept = 0;
  for (size_t i = 0; i < o.choices; i++) {
    o.out[i] = route.slots[i] >= 0 ? route.weights[i] : 0;
    kept += route.slots[i] >= 0;
  }
  cr_assert_eq(result.kept, kept);
  cr_assert_eq(result.dropped, (int64_t)o.choices - kept);
  cr_assert_leq((size_t)route.starts[c->experts],
                train_router_slots(&router, c->sequences, (int)expert_rows(c), c->length));
  o.out[o.choices] = (float)result.balance;
  o.out[o.choices + 1] = (float)result.z;
  run_backward(exec, c, &route, x, d, &o);
  o.slots = route.slots, o.starts = route.starts, route.slots = route.starts = NULL;
  expert_route_free(&route);
  return o;
}

/* The losses' factors are half of the case's, since the gradients are scaled by 0.5. */
static float *output_gradients(const expert_case_t *c, size_t choices) {
  float *d = op_random(77, 1, choices + 2);
  d[choices] = c->balance / 2;
  d[choices + 1] = c->z / 2;
  return d;
}

static void check_threads(const expert_case_t *c, const outcome_t *expected, const void *x,
                          const float *d, train_dtype_t dtype) {
  for (int threads = 2; threads <= 4; threads++) {
    train_pool_t *pool;
    cr_assert_eq(train_pool_create(threads, &pool), COLL_OK);
    outcome_t o = run_router(op_exec_with(pool, dtype), c, x, d);
    cr_assert_arr_eq(o.out, expected->out, (o.choices + 2) * sizeof(float));
    cr_assert_arr_eq(o.d, expected->d, (o.ins + o.gates) * sizeof(float));
    cr_assert_arr_eq(o.slots, expected->slots, o.choices * sizeof(int32_t));
    outcome_free(&o);
    train_pool_destroy(pool);
  }
}

static void check_case(const expert_case_t *c, size_t stride) {
  const shape_t unused = {0};
  size_t ins = (expert_rows(c) + (size_t)c->experts) * (size_t)c->width;
  float *x = op_random(expert_seed(c, TRAIN_FLOAT32, 0), 1, ins);
  float *d = output_gradients(c, expert_rows(c) * (size_t)c->top_k);
  reference_case = c;
  outcome_t o = run_router(op_exec(NULL), c, x, d);
  check_forward("router", reference_router, &unused, x, ins, o.out, o.choices + 2);
  check_gradients("router", reference_router, &unused, x, ins, stride, d, o.choices + 2, o.d);
  for (size_t i = 0; i < o.gates; i++) {
    cr_assert_float_eq((double)o.d_gate[i], 2 * (double)o.d[o.ins + i],
                       1e-5 * (1 + fabs((double)o.d[o.ins + i])), "a second gradient is not added");
  }
  check_threads(c, &o, x, d, TRAIN_FLOAT32);
  outcome_free(&o);
  free(x), free(d);
}

/* ---- parts of the rows ---- */

/* Routes part `part` of `parts`; adds its slots to owners[rows * top_k], whose sum is then 1 for
 * every choice that is kept. */
static void check_part(const expert_case_t *c, const float *x, int part, int parts,
                       const outcome_t *whole, int *owners) {
  train_router_t router = expert_router(c);
  const train_batch_t batch = expert_batch(c);
  train_route_t route = expert_route(&router, &batch);
  int rows = (int)expert_rows(c), each = (rows + parts - 1) / parts, used = 0;
  router.part = part, router.parts = parts;
  const train_router_result_t result =
      train_router_forward(op_exec(NULL), &router, &batch, x, x + whole->ins, NULL, NULL, &route);
  for (int i = 0; i < rows * c->top_k; i++) {
    bool here = i / c->top_k / each == part;
    cr_assert_eq(route.slots[i] >= 0, here && whole->slots[i] >= 0, "choice %d of part %d", i,
                 part);
    owners[i] += route.slots[i] >= 0;
    used += route.slots[i] >= 0;
  }
  int counted = 0, kept = 0;
  for (int expert = 0; expert < c->experts; expert++) counted += route.counts[expert];
  for (int i = 0; i < rows * c->top_k; i++) kept += whole->slots[i] >= 0;
  cr_assert_eq(counted, used);
  cr_assert_eq(result.kept, kept, "all choices that are kept count in every part");
  cr_assert_eq((float)result.balance, whole->out[whole->choices]);
  cr_assert_leq((size_t)route.starts[c->experts],
                train_router_slots(&router, c->sequences, rows, c->length));
  expert_route_free(&route);
}

/* 3 sequences of 7 rows in 2, 4 and 20 parts: parts begin inside of sequences, and the last ones
 * are empty. */
Test(router, parts_share_the_slots) {
  const expert_case_t c = {3, 7, 5, 4, 2, 0.75, 0.5f, 0.25f, 0};
  size_t ins = (expert_rows(&c) + (size_t)c.experts) * (size_t)c.width,
         choices = expert_rows(&c) * (size_t)c.top_k;
  float *x = op_random(expert_seed(&c, TRAIN_FLOAT32, 0), 1, ins);
  float *d = output_gradients(&c, choices);
  outcome_t whole = run_router(op_exec(NULL), &c, x, d);
  for (int parts = 2; parts <= 20; parts = parts == 2 ? 4 : parts + 16) {
    int owners[3 * 7 * 2] = {0};
    for (int part = 0; part < parts; part++) check_part(&c, x, part, parts, &whole, owners);
    for (size_t i = 0; i < choices; i++) cr_assert_eq(owners[i], whole.slots[i] >= 0);
  }
  outcome_free(&whole);
  free(x), free(d);
}

Test(router, top_1) {
  check_case(&(expert_case_t){2, 9, 5, 4, 1, 0, 0, 0}, 1);
  check_case(&(expert_case_t){2, 9, 5, 4, 1, 1, 0.5f, 0.25f, 0}, 1);
  check_case(&(expert_case_t){3, 70, 7, 8, 1, 1.25, 0.5f, 0.25f, 0}, 13);
  check_case(&(expert_case_t){2, 9, 5, 1, 1, 1, 0.5f, 0.25f, 0}, 1);
}

Test(router, top_2) {
  check_case(&(expert_case_t){2, 9, 5, 4, 2, 0, 0, 0}, 1);
  check_case(&(expert_case_t){2, 9, 5, 4, 2, 1, 0.5f, 0.25f, 0}, 1);
  check_case(&(expert_case_t){3, 70, 7, 9, 2, 0.5, 0.5f, 0.25f, 0}, 13);
  check_case(&(expert_case_t){1, 30, 7, 2, 2, 0.5, 0.5f, 0.25f, 0}, 1);
}

/* Rounds x to the type, and returns it in the type. */
static void *narrowed(train_dtype_t dtype, float *x, size_t count) {
  void *narrow = malloc(count * sizeof *x);
  train_dtype_narrow(dtype, x, count, narrow);
  train_dtype_widen(dtype, narrow, count, x);
  return narrow;
}

/* Only the gradient of `in` is rounded: the rest is as exact as in float32. */
static void check_narrow(const expert_case_t *c, train_dtype_t dtype) {
  const shape_t unused = {0};
  size_t ins = (expert_rows(c) + (size_t)c->experts) * (size_t)c->width;
  float *x = op_random(expert_seed(c, dtype, 0), 1, ins);
  float *d = output_gradients(c, expert_rows(c) * (size_t)c->top_k);
  void *narrow = narrowed(dtype, x, ins);
  double *wide = malloc(ins * sizeof *wide), *out = malloc(sizeof *out * (expert_rows(c) * 2 + 2));
  for (size_t i = 0; i < ins; i++) wide[i] = (double)x[i];
  reference_case = c;
  outcome_t o = run_router(op_exec_with(NULL, dtype), c, narrow, d);
  check_forward("router", reference_router, &unused, x, ins, o.out, o.choices + 2);
  for (size_t i = 0; i < ins; i += 19) {
    double expected = reference_gradient(reference_router, &unused, wide, i, d, o.choices + 2, out);
    double unit = i >= o.ins ? 0 : dtype == TRAIN_BFLOAT16 ? 0x1p-8 : 0x1p-11;
    cr_assert_float_eq((double)o.d[i], expected, 1e-4 + (unit + 5e-5) * fabs(expected),
                       "%s: gradient[%zu] is %g, not %g", train_dtype_name(dtype), i,
                       (double)o.d[i], expected);
  }
  check_threads(c, &o, narrow, d, dtype);
  outcome_free(&o);
  free(x), free(d), free(narrow), free(wide), free(out);
}

Test(router, narrow_types) {
  const expert_case_t c = {2, 300,  7,     4, 2,
                           1, 0.5f, 0.25f, 0}; /* more rows than are widened at once */
  check_narrow(&(expert_case_t){2, 9, 15, 4, 1, 1, 0.5f, 0.25f, 0}, TRAIN_BFLOAT16);
  check_narrow(&(expert_case_t){2, 9, 15, 4, 2, 1, 0.5f, 0.25f, 0}, TRAIN_FLOAT16);
  check_narrow(&c, TRAIN_BFLOAT16);
}

/* ---- dropping ---- */

/* Routes rows whose first and second choices are given as digits, "01" "20": the gate is the
 * identity. Returns the route. */
static train_route_t route_digits(const train_router_t *router, const train_batch_t *batch,
                                  const char *const *choices) {
  int experts = router->experts, rows = train_batch_rows(batch);
  float in[rows * experts], gate[experts * experts];
  memset(in, 0, sizeof in);
  memset(gate, 0, sizeof gate);
  for (int i = 0; i < experts; i++) gate[i * experts + i] = 1;
  for (int row = 0; row < rows; row++) {
    in[row * experts + choices[row][0] - '0'] = 2;
    if (router->top_k == 2) in[row * experts + choices[row][1] - '0'] = 1;
  }
  train_route_t route = expert_route(router, batch);
  train_router_forward(op_exec(NULL), router, batch, in, gate, NULL, NULL, &route);
  return route;
}

static void check_slots(const expert_case_t *c, const char *const *choices, const int *expected,
                        const int *starts) {
  train_router_t router = expert_router(c);
  router.width = router.experts;
  const train_batch_t batch = expert_batch(c);
  train_route_t route = route_digits(&router, &batch, choices);
  for (int i = 0; i < (int)expert_rows(c) * c->top_k; i++) {
    cr_assert_eq(route.slots[i], expected[i], "choice %d has slot %d, not %d", i, route.slots[i],
                 expected[i]);
  }
  for (int e = 0; e <= c->experts; e++) cr_assert_eq(route.starts[e], starts[e]);
  expert_route_free(&route);
}

Test(router, drops_by_position_in_each_sequence) {
  const expert_case_t c = {2, 4, 2, 2, 1, 1, 0, 0, 0}; /* capacity 2 */
  const char *const choices[] = {"0", "0", "1", "0", "1", "0", "1", "1"};
  check_slots(&c, choices, (const int[]){0, 1, 4, -1, 5, 2, 6, -1}, (const int[]){0, 4, 8});
}

Test(router, drops_nothing_without_capacity) {
  const expert_case_t c = {1, 6, 3, 3, 1, 0, 0, 0, 0};
  const char *const choices[] = {"2", "2", "2", "2", "2", "0"};
  check_slots(&c, choices, (const int[]){4, 5, 6, 7, 8, 0}, (const int[]){0, 4, 4, 12});
}

/* All first choices go before second choices, also of earlier rows. */
Test(router, first_choices_go_first) {
  const expert_case_t c = {1, 3, 3, 3, 2, 1, 0, 0, 0}; /* capacity 2 */
  const char *const choices[] = {"01", "10", "12"};
  check_slots(&c, choices, (const int[]){0, -1, 4, 1, 5, 8}, (const int[]){0, 4, 8, 12});
}

Test(router, second_choices_may_find_no_place) {
  const expert_case_t c = {1, 3, 3, 3, 2, 0.5, 0, 0, 0}; /* capacity 1 */
  const char *const choices[] = {"01", "02", "20"};
  check_slots(&c, choices, (const int[]){0, 4, -1, -1, 8, -1}, (const int[]){0, 4, 8, 12});
}

Test(router, capacity_is_rounded_up) {
  train_router_t router = {.experts = 8, .top_k = 1, .capacity_factor = 1.25};
  cr_assert_eq(train_router_capacity(&router, 64), 10);
  cr_assert_eq(train_router_capacity(&router, 65), 11);
  router.top_k = 2;
  cr_assert_eq(train_router_capacity(&router, 64), 20);
  router.capacity_factor = 100; /* a row chooses an expert once only */
  cr_assert_eq(train_router_capacity(&router, 64), 64);
  router.capacity_factor = 0;
  cr_assert_eq(train_router_capacity(&router, 64), 64);
}

Test(router, equal_logits_choose_lower_experts) {
  const expert_case_t c = {1, 2, 3, 4, 2, 0, 0, 0, 0};
  const train_router_t router = expert_router(&c);
  const train_batch_t batch = expert_batch(&c);
  const float in[6] = {1, 2, 3, 4, 5, 6}, gate[12] = {0};
  train_route_t route = expert_route(&router, &batch);
  train_router_forward(op_exec(NULL), &router, &batch, in, gate, NULL, NULL, &route);
  for (int row = 0; row < 2; row++) {
    cr_assert_eq(route.choices[2 * row], 0);
    cr_assert_eq(route.choices[2 * row + 1], 1);
    cr_assert_float_eq((double)route.weights[2 * row], 0.5, 1e-6);
  }
  expert_route_free(&route);
}

/* Rows without numbers must not lead to experts that do not exist. */
Test(router, survives_nan) {
  const expert_case_t c = {1, 2, 3, 4, 2, 1, 0, 0, 0};
  const train_router_t router = expert_router(&c);
  const train_batch_t batch = expert_batch(&c);
  float in[6], gate[12] = {0};
  for (int i = 0; i < 6; i++) in[i] = NAN;
  train_route_t route = expert_route(&router, &batch);
  const train_router_result_t result =
      train_router_forward(op_exec(NULL), &router, &batch, in, gate, NULL, NULL, &route);
  cr_assert(isnan(result.z));
  for (int i = 0; i < 4; i++) cr_assert_eq(route.choices[i], i % 2);
  expert_route_free(&route);
}

/* ---- sequences on several ranks ---- */

enum { PARTS = 4 }; /* of a sequence: rank 0 has the first and the last, rank 1 those between */

/* Counts of a sequence of PARTS segments, and which of them the rank has. */
typedef struct split {
  const int32_t *own;
  const int *parts;
} split_t;

static void complete_split(void *context, const train_router_counts_t *counts) {
  const split_t *split = context;
  int of_segment = counts->top_k * counts->experts;
  memset(counts->totals, 0, (size_t)of_segment * sizeof(int32_t));
  memset(counts->before, 0, (size_t)(counts->segments * of_segment) * sizeof(int32_t));
  for (int part = 0; part < PARTS; part++) {
    for (int i = 0; i < of_segment; i++) {
      int32_t count = split->own[part * of_segment + i];
      counts->totals[i] += count;
      for (int here = 0; here < counts->segments; here++) {
        if (part < split->parts[here]) counts->before[here * of_segment + i] += count;
        if (part == split->parts[here]) {
          cr_assert_eq(counts->own[here * of_segment + i], count);
        }
      }
    }
  }
}

/* Routes the rows of one rank and compares with the route of the whole sequence. */
static train_router_result_t check_split(const expert_case_t *c, const float *in, const float *gate,
                                         const train_route_t *whole, const int *parts) {
  enum { HERE = 2 };
  size_t part_rows = (size_t)(c->length / PARTS), width = (size_t)c->width, k = (size_t)c->top_k;
  train_router_t router = expert_router(c);
  router.segments = HERE;
  const train_batch_t batch = {.sequences = 1, .length = HERE * (int)part_rows};
  float own[HERE * part_rows * width];
  for (size_t i = 0; i < HERE; i++) {
    memcpy(own + i * part_rows * width, in + (size_t)parts[i] * part_rows * width,
           part_rows * width * sizeof *own);
  }
  split_t split = {.own = whole->own, .parts = parts};
  train_route_t route = expert_route(&router, &batch);
  const train_router_result_t result = train_router_forward(op_exec(NULL), &router, &batch, own,
                                                            gate, complete_split, &split, &route);
  for (size_t i = 0; i < HERE * part_rows * k; i++) {
    size_t part = (size_t)parts[i / (part_rows * k)];
    size_t at = part * part_rows * k + i % (part_rows * k);
    cr_assert_eq(route.slots[i] < 0, whole->slots[at] < 0, "choice %zu", at);
  }
  expert_route_free(&route);
  return result;
}

static void check_parts_add_up(int top_k) {
  const expert_case_t c = {1, 48, 6, 5, top_k, 0.75, 1, 1, 0};
  const train_batch_t batch = expert_batch(&c);
  train_router_t router = expert_router(&c);
  float *x = op_random(expert_seed(&c, TRAIN_FLOAT32, 0), 1, (size_t)((48 + 5) * 6));
  router.segments = PARTS;
  train_route_t whole = expert_route(&router, &batch);
  const train_router_result_t all =
      train_router_forward(op_exec(NULL), &router, &batch, x, x + 48 * 6, NULL, NULL, &whole);
  const train_router_result_t outer = check_split(&c, x, x + 48 * 6, &whole, (const int[]){0, 3});
  const train_router_result_t inner = check_split(&c, x, x + 48 * 6, &whole, (const int[]){1, 2});
  cr_assert_gt(all.dropped, 0);
  cr_assert_eq(outer.dropped + inner.dropped, all.dropped);
  cr_assert_float_eq(outer.balance + inner.balance, all.balance, 1e-5 * all.balance);
  cr_assert_float_eq(outer.z + inner.z, all.z, 1e-5 * all.z);
  expert_route_free(&whole);
  free(x);
}

Test(router, parts_of_a_sequence_drop_what_the_whole_drops) {
  check_parts_add_up(1);
  check_parts_add_up(2);
}

/* ---- replayed choices ---- */

/* Context of swap_choices. */
typedef struct swap {
  int layer, calls;
} swap_t;

static void swap_choices(void *context, int layer, const train_batch_t *batch, int32_t *choices) {
  swap_t *swap = context;
  swap->layer = layer;
  swap->calls++;
  for (int row = 0; row < train_batch_rows(batch); row++) {
    int32_t first = choices[2 * row];
    choices[2 * row] = choices[2 * row + 1];
    choices[2 * row + 1] = first;
  }
}

static train_route_t route_of(const expert_case_t *c, const train_router_replay_t *replay,
                              const float *x) {
  const train_batch_t batch = expert_batch(c);
  train_router_t router = expert_router(c);
  router.replay = replay;
  router.layer = 3;
  train_route_t route = expert_route(&router, &batch);
  const float *gate = x + expert_rows(c) * (size_t)c->width;
  train_router_forward(op_exec(NULL), &router, &batch, x, gate, NULL, NULL, &route);
  return route;
}

static void check_swapped_counts(const expert_case_t *c, const int32_t *own,
                                 const int32_t *replayed) {
  for (int at = 0; at < c->sequences * 2 * c->experts; at++) {
    int rank = at / c->experts % 2, other = rank == 0 ? at + c->experts : at - c->experts;
    cr_assert_eq(replayed[at], own[other], "%d and %d choices", replayed[at], own[other]);
  }
}

/* Weights and counts are those of the replayed choices, probabilities those of the logits. */
Test(router, takes_replayed_choices) {
  const expert_case_t c = {3, 12, 8, 4, 2, 1, 1, 1, 8};
  size_t rows = expert_rows(&c), experts = (size_t)c.experts;
  float *x = op_random(expert_seed(&c, TRAIN_FLOAT32, 0), 1, (rows + experts) * (size_t)c.width);
  swap_t swap = {0};
  const train_router_replay_t replay = {.choose = swap_choices, .context = &swap};
  train_route_t own = route_of(&c, NULL, x), replayed = route_of(&c, &replay, x);
  cr_assert(swap.layer == 3 && swap.calls == 1);
  cr_assert_arr_eq(replayed.probabilities, own.probabilities, rows * experts * sizeof(float));
  cr_assert_arr_eq(replayed.log_sums, own.log_sums, rows * sizeof(float));
  for (size_t at = 0; at < rows * 2; at++) {
    size_t other = at ^ 1;
    cr_assert_eq(replayed.choices[at], own.choices[other]);
    cr_assert_eq(replayed.weights[at], own.weights[other]);
  }
  check_swapped_counts(&c, own.totals, replayed.totals);
  expert_route_free(&own), expert_route_free(&replayed);
  free(x);
}
