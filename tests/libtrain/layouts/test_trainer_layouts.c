/*
 * Runs on tensor ranks and pipeline stages of which one computes a value that is not finite: all
 * ranks skip the same steps with the same loss scales, and train as one rank does.
 */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "libtrain/trainer_jobs.h"

#define RUN_STEPS 20

TestSuite(trainer_layouts, .init = trainer_setup, .fini = trainer_teardown);

typedef struct trial {
  int size, tp, pp;
  fault_t fault; /* on that rank */
  train_precision_t precision;
  double scale;     /* to begin with; 0: the usual one, if any */
  double tolerance; /* of losses, relative */
} trial_t;

static void start(int size, const trial_t *trial, job_t *jobs) {
  start_jobs(size, jobs);
  for (int rank = 0; rank < size; rank++) {
    job_t *job = &jobs[rank];
    job->options.steps = RUN_STEPS;
    job->options.rate = 1e-3;
    job->options.schedule = TRAIN_SCHEDULE_1F1B;
    job->options.model.precision = job->store_options.precision = trial->precision;
    job->metadata.loss_scale.scale = trial->scale;
    job->micro_batches = 2;
    job->tp = size > 1 ? trial->tp : 1;
    job->pp = size > 1 ? trial->pp : 1;
    job->fault = trial->fault;
    if (size == 1) job->fault.rank = 0;
  }
}

/* Without the key biases, see layouts/compare.h. */
static void compare_parameters(const job_t *got, const job_t *expected) {
  const train_layout_t *whole = expected->layout;
  for (size_t i = 0; i < got->layout->parameter_count; i++) {
    size_t full;
    train_layout_run(got->layout, i, &full);
    const train_tensor_t *tensor = train_layout_tensor_at(whole, full);
    size_t third = train_tensor_count(tensor) / 3, at = full - tensor->offset;
    if (strstr(tensor->name, "c_attn.bias") != NULL && at >= third && at < 2 * third) continue;
    double difference = (double)got->parameters[i] - (double)expected->parameters[full];
    cr_assert(fabs(difference) <= 1e-4, "rank %d: element %zu of %s is %g apart", got->rank, at,
              tensor->name, difference);
  }
}

/* The same steps are skipped with the same scales; losses of skipped steps may be NaN. */
static void compare_steps(const job_t *got, const job_t *expected, double tolerance) {
  for (int step = 0; step < RUN_STEPS; step++) {
    float loss = got->losses[step], other = expected->losses[step];
    cr_assert_eq(got->skipped[step], expected->skipped[step], "rank %d, step %d", got->rank,
                 step + 1);
    cr_assert_eq(got->scales[step], expected->scales[step], "rank %d, step %d: scale %g, not %g",
                 got->rank, step + 1, got->scales[step], expected->scales[step]);
    bool equal = isfinite(other) ? fabsf(loss - other) <= (float)tolerance * other : isnan(loss);
    cr_assert(equal, "rank %d, step %d: loss %.7f, not %.7f", got->rank, step + 1, (double)loss,
              (double)other);
  }
}

static void check_steps(const job_t *job) {
  for (int step = 1; step < RUN_STEPS; step++) {
    bool unchanged = job->digests[step] == job->digests[step - 1];
    cr_assert_eq(unchanged, job->skipped[step], "rank %d, step %d", job->rank, step + 1);
  }
}

/* Returns the number of skipped steps. */
static uint64_t check(const trial_t *trial) {
  static job_t alone[1], jobs[RANKS_MAX];
  start(1, trial, alone);
  start(trial->size, trial, jobs);
  run_jobs(1, alone);
  run_jobs(trial->size, jobs);
  check_all_ok(1, alone);
  check_all_ok(trial->size, jobs);
  for (int rank = 0; rank < trial->size; rank++) {
    compare_steps(&jobs[rank], &jobs[0], 0);
    compare_steps(&jobs[rank], alone, trial->tolerance);
    check_steps(&jobs[rank]);
    cr_assert_eq(jobs[rank].metadata.position.skipped, alone->metadata.position.skipped);
    cr_assert_eq(jobs[rank].metadata.loss_scale.scale, alone->metadata.loss_scale.scale);
    if (trial->precision == TRAIN_PRECISION_FLOAT32) compare_parameters(&jobs[rank], alone);
  }
  uint64_t skipped = alone->metadata.position.skipped;
  free_jobs(1, alone);
  free_jobs(trial->size, jobs);
  return skipped;
}

#define CHECK(...) check(&(trial_t){__VA_ARGS__})
#define FLOAT32 .precision = TRAIN_PRECISION_FLOAT32, .tolerance = 1e-5
#define FLOAT16 .precision = TRAIN_PRECISION_FP16, .tolerance = 0x1p-8
#define FAULT(kind, rank) .fault = {kind, rank, 7, 8, 0}

Test(trainer_layouts, tensor_ranks_skip_the_same_steps) {
  cr_assert_eq(CHECK(2, .tp = 2, FLOAT32, FAULT(FAULT_GRADIENT, 0)), 2);
  cr_assert_eq(CHECK(2, .tp = 2, FLOAT32, FAULT(FAULT_GRADIENT, 1)), 2);
  cr_assert_eq(CHECK(2, .tp = 2, FLOAT32, FAULT(FAULT_LOSS, 0)), 2);
  cr_assert_eq(CHECK(4, .tp = 2, FLOAT32, FAULT(FAULT_GRADIENT, 3)), 2);
}

Test(trainer_layouts, stages_skip_the_same_steps) {
  cr_assert_eq(CHECK(2, .pp = 2, FLOAT32, FAULT(FAULT_GRADIENT, 0)), 2);
  cr_assert_eq(CHECK(2, .pp = 2, FLOAT32, FAULT(FAULT_GRADIENT, 1)), 2);
  cr_assert_eq(CHECK(2, .pp = 2, FLOAT32, FAULT(FAULT_LOSS, 1)), 2); /* the classifier is there */
  cr_assert_eq(CHECK(4, .tp = 2, .pp = 2, FLOAT32, FAULT(FAULT_GRADIENT, 1)), 2);
}

Test(trainer_layouts, loss_scales_are_halved_alike) {
  cr_assert_eq(CHECK(2, .tp = 2, FLOAT16, FAULT(FAULT_GRADIENT, 1)), 2);
  cr_assert_eq(CHECK(2, .pp = 2, FLOAT16, FAULT(FAULT_GRADIENT, 0)), 2);
}

/* Gradients overflow in float16 until the scale is small enough. */
Test(trainer_layouts, gradients_of_float16_overflow_alike) {
  uint64_t tensor = CHECK(2, .tp = 2, FLOAT16, .scale = 0x1p24);
  uint64_t stages = CHECK(2, .pp = 2, FLOAT16, .scale = 0x1p24);
  cr_assert(tensor > 0 && tensor < 10 && stages == tensor, "%d and %d steps", (int)tensor,
            (int)stages);
}
