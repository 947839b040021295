/*
 * Gradients of cut layers against finite differences: of every tensor of a model in a layout, the
 * gradient along a random direction is what the loss changes by when the ranks move their parts of
 * the tensor. The loss is the layout's own, so that no other layout has to be right.
 *
 * Along a direction of signs, all elements of a tensor move by the same step, and the error of a
 * single element counts as much as its share of the gradient. Of several directions the steepest
 * is taken.
 */
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "libtrain/common/random.h"
#include "libtrain/layouts/worker.h"

#define DIRECTIONS 8

/* Steps are as long as change the loss by CHANGE, at most STEP_MAX: weights deviate by about 0.1.
 * With differences of fourth order, what they leave out is below TRUNCATION of the slope. */
#define CHANGE 5e-4
#define STEP_MAX 0.02
#define TRUNCATION 1e-3

/* The loss is a mean of float32 losses near 4, each of which is rounded by at most 2^-23. The
 * differences weigh rounding errors by 1.5 in all and divide them by the step. */
#define NOISE (1.5 * 0x1p-23)

/* Wrong gradients that must be found: by one percent. */
#define FOUND 0.01

static const train_model_config_t dense = {
    .vocabulary = 61, .context = 32, .layers = 2, .heads = 4, .width = 32};
static const train_model_config_t of_experts = {.vocabulary = 61,
                                                .context = 32,
                                                .layers = 2,
                                                .heads = 4,
                                                .width = 32,
                                                .experts = 4,
                                                .top_k = 2,
                                                .moe_every = 1,
                                                .shared_expert = 1};

/* ---- weights ---- */

/* The change of an element of the whole model along a direction, without its length. */
static int sign_of(uint64_t direction, size_t element) {
  return train_random_bits(direction, TRAIN_RANDOM_BATCHES, element) & 1 ? 1 : -1;
}

/* Sets this rank's part of a tensor of the whole model to where it was, and a step further. */
static void move_part(const layout_worker_t *worker, const train_tensor_t *own, uint64_t direction,
                      double step) {
  const train_store_t *store = worker->store;
  float *values = store_unit_values(store, &store->weights, own->unit);
  size_t in_unit = own->offset - worker->layout->units[own->unit].offset;
  for (size_t at = 0; at < train_tensor_count(own); at++) {
    size_t full;
    train_layout_run(worker->layout, own->offset + at, &full);
    if (full == TRAIN_LAYOUT_PADDING) continue;
    double from = (double)worker->job->outcome->weights[full];
    values[in_unit + at] = (float)(from + step * sign_of(direction, full));
  }
}

static void move(const layout_worker_t *worker, const train_tensor_t *tensor, uint64_t direction,
                 double step) {
  for (int i = 0; i < worker->layout->tensor_count; i++) {
    const train_tensor_t *own = &worker->layout->tensors[i];
    if (strcmp(own->name, tensor->name) == 0) move_part(worker, own, direction, step);
  }
}

/* Initial weights are so small that attention and routers hardly depend on theirs. */
static void enlarge_weights(const layout_worker_t *worker) {
  const train_store_t *store = worker->store;
  for (int i = 0; i < worker->layout->tensor_count; i++) {
    const train_tensor_t *own = &worker->layout->tensors[i];
    float *values = store_unit_values(store, &store->weights, own->unit);
    size_t in_unit = own->offset - worker->layout->units[own->unit].offset;
    if (own->rows == 1) continue;
    for (size_t at = 0; at < train_tensor_count(own); at++) values[in_unit + at] *= 4;
  }
}

/* ---- the loss and its gradients ---- */

static const float mean = 1.0f / (LAYOUT_BATCH * 32);

/* That of which the gradients are: with the losses of routers, which route as they did first. */
static int compute_loss(layout_worker_t *worker, double *loss) {
  int count = LAYOUT_BATCH / worker->ranks.shares;
  double sums[3];
  layout_router_replay_first(&worker->router, worker->job->outcome->routing);
  train_executor_model(worker->executor)->routed = (train_router_result_t){0};
  PARTY_TRY(layout_worker_loss(worker, worker->ranks.share * count, count, &sums[0]));
  const train_router_result_t routed = train_executor_routed(worker->executor);
  sums[1] = routed.balance;
  sums[2] = routed.z;
  PARTY_OK(train_group_sum_doubles(&worker->ranks.all, sums, 3));
  *loss = (double)mean * (sums[0] + (double)LAYOUT_BALANCE * sums[1] + (double)LAYOUT_Z * sums[2]);
  return 0;
}

/* Of the whole model, in the outcome. */
static int compute_gradients(layout_worker_t *worker) {
  const layout_outcome_t *outcome = worker->job->outcome;
  double sums[2];
  enlarge_weights(worker);
  PARTY_OK(layout_worker_gradients(worker, mean, sums));
  layout_worker_collect(worker, &worker->store->weights, outcome->weights);
  layout_worker_collect(worker, &worker->store->gradients, outcome->gradients);
  PARTY_OK(coll_barrier(worker->ranks.all.comm, NULL));
  return 0;
}

static double slope_along(const layout_worker_t *worker, const train_tensor_t *tensor,
                          uint64_t direction) {
  const float *gradients = worker->job->outcome->gradients;
  double slope = 0;
  for (size_t i = 0; i < train_tensor_count(tensor); i++) {
    size_t element = tensor->offset + i;
    slope += sign_of(direction, element) * (double)gradients[element];
  }
  return slope;
}

static double steepest(const layout_worker_t *worker, const train_tensor_t *tensor,
                       uint64_t *direction) {
  double slope = 0;
  for (uint64_t i = 0; i < DIRECTIONS; i++) {
    double other = slope_along(worker, tensor, i);
    if (fabs(other) < fabs(slope)) continue;
    slope = other;
    *direction = i;
  }
  return slope;
}

/* f' = (8 (f(h) - f(-h)) - (f(2h) - f(-2h))) / 12h. */
static int differentiate(layout_worker_t *worker, const train_tensor_t *tensor, uint64_t direction,
                         double step, double *slope) {
  static const int steps[] = {1, -1, 2, -2}, weights[] = {8, -8, -1, 1};
  double sum = 0, loss;
  for (int i = 0; i < 4; i++) {
    move(worker, tensor, direction, step * steps[i]);
    PARTY_TRY(compute_loss(worker, &loss));
    sum += weights[i] * loss;
  }
  move(worker, tensor, direction, 0);
  *slope = sum / (12 * step);
  return 0;
}

/* All ranks come to the same verdict. */
static int check_tensor(layout_worker_t *worker, const train_tensor_t *tensor) {
  uint64_t direction = 0;
  double expected, slope = steepest(worker, tensor, &direction);
  double step = fmin(STEP_MAX, CHANGE / fabs(slope));
  double tolerance = TRUNCATION * fabs(slope) + NOISE / step;
  PARTY_TRY(differentiate(worker, tensor, direction, step, &expected));
  PARTY_REQUIRE(2 * tolerance < FOUND * fabs(slope), "%s: a slope of %g is too small to be judged",
                tensor->name, slope);
  PARTY_REQUIRE(fabs(slope - expected) <= tolerance,
                "%s: the gradient has the slope %g, and the loss %g", tensor->name, slope,
                expected);
  return 0;
}

static int check_gradients(layout_worker_t *worker) {
  const train_layout_t *whole = worker->job->outcome->layout;
  PARTY_TRY(compute_gradients(worker));
  for (int i = 0; i < whole->tensor_count; i++) {
    PARTY_TRY(check_tensor(worker, &whole->tensors[i]));
  }
  return 0;
}

static void check(layout_trial_t trial) {
  trial.steps = 1;
  layout_outcome_t outcome = layout_run(&trial, check_gradients);
  layout_outcome_free(&outcome);
}

/* ---- the layouts ---- */

#define DENSE(...) check((layout_trial_t){.config = &dense, __VA_ARGS__})
#define EXPERTS(...) check((layout_trial_t){.config = &of_experts, __VA_ARGS__})
#define SP .sequence_parallel = true
#define ULYSSES .context_kind = TRAIN_CONTEXT_ULYSSES

Test(gradients, of_one_rank) {
  DENSE(.dp = 1);
  EXPERTS(.dp = 1);
}

/* Column and row linear layers, attention by heads, the vocabulary of embedding and classifier. */
Test(gradients, tensor) {
  DENSE(.tp = 2);
  DENSE(.tp = 4);
  DENSE(.tp = 2, .tensor_overlap = 2);
}

/* Also layernorms, whose rows are cut. */
Test(gradients, sequence) {
  DENSE(.tp = 2, SP);
  DENSE(.tp = 2, SP, .tensor_overlap = 2);
}

Test(gradients, context) {
  DENSE(.cp = 2);
  DENSE(.cp = 4);
  DENSE(.cp = 2, ULYSSES);
  DENSE(.cp = 2, .tp = 2, SP);
}

Test(gradients, pipeline) {
  DENSE(.pp = 2);
}

Test(gradients, experts) {
  EXPERTS(.dp = 2, .ep = 2);
  EXPERTS(.cp = 2, .ep = 2);
  EXPERTS(.tp = 2, SP);
  EXPERTS(.dp = 2, .tp = 2, .ep = 2);
  EXPERTS(.dp = 2, .tp = 2, .ep = 2, .etp = 1, SP);
}
