/* Each condition of a layout refuses with a sentence that names the nearest layout that fits. What
 * the model's sizes forbid is tested in ../mesh. */
#include <criterion/criterion.h>
#include <string.h>

#include "jobs.h"
#include "libtrain/planner/slices.h"

static void expect(const train_plan_job_t *job, const train_plan_layout_t *layout,
                   train_plan_limit_t wanted, const char *words) {
  train_plan_limit_t limit;
  coll_status_t status = train_plan_check(job, layout, &limit);
  cr_expect_eq(limit, wanted, "%d instead of %d: %s", limit, wanted, base_last_error());
  cr_expect_eq(status, wanted == TRAIN_PLAN_POSSIBLE ? COLL_OK : COLL_ERROR_INVALID);
  if (words != NULL) cr_expect(strstr(base_last_error(), words) != NULL, "%s", base_last_error());
}

Test(plan_check, possible) {
  const train_plan_job_t job = small_job();
  const train_plan_layout_t one = layout_of(1, 1, 1, 1), all = layout_of(2, 2, 2, 2);
  expect(&job, &one, TRAIN_PLAN_POSSIBLE, NULL);
  expect(&job, &all, TRAIN_PLAN_POSSIBLE, NULL);
}

Test(plan_check, mesh) {
  train_plan_job_t job = small_job();
  train_plan_layout_t layout = layout_of(1, 3, 1, 1);
  expect(&job, &layout, TRAIN_PLAN_LIMIT_MESH, "the nearest that does is --tp 2");
  layout = layout_of(1, 1, 1, 8);
  expect(&job, &layout, TRAIN_PLAN_LIMIT_MESH, "4 layers");
  layout = layout_of(1, 1, 3, 1);
  expect(&job, &layout, TRAIN_PLAN_LIMIT_MESH, "--context 30");
  layout = layout_of(1, 2, 4, 1);
  layout.attention = TRAIN_CONTEXT_ULYSSES; /* 2 heads of each tensor rank */
  expect(&job, &layout, TRAIN_PLAN_LIMIT_MESH, "--cp 2");
  layout = layout_of(1, 1, 1, 2);
  layout.schedule.kind = TRAIN_SCHEDULE_INTERLEAVED;
  layout.schedule.chunks = 2;
  expect(&job, &layout, TRAIN_PLAN_LIMIT_MESH, "--accumulate 2");
  job.model.context = 30;
  layout = layout_of(1, 4, 1, 1);
  layout.sequence = true;
  expect(&job, &layout, TRAIN_PLAN_LIMIT_MESH, "sequence parallelism");
}

Test(plan_check, batch) {
  const train_plan_job_t job = small_job();
  train_plan_layout_t layout = layout_of(4, 1, 1, 1);
  layout.schedule.micro_batches = 3;
  expect(&job, &layout, TRAIN_PLAN_LIMIT_BATCH, "make --batch a multiple of 12");
}

Test(plan_check, zero_with_a_pipeline) {
  const train_plan_job_t job = small_job();
  train_plan_layout_t layout = layout_of(2, 1, 1, 2);
  layout.zero = 1;
  expect(&job, &layout, TRAIN_PLAN_POSSIBLE, NULL);
  layout.zero = 2;
  expect(&job, &layout, TRAIN_PLAN_LIMIT_ZERO, "give --zero 1");
}

Test(plan_check, recomputation_with_a_split_backward_pass) {
  const train_plan_job_t job = small_job();
  train_plan_layout_t layout = layout_of(2, 1, 1, 2);
  layout.schedule.kind = TRAIN_SCHEDULE_ZB_H1;
  expect(&job, &layout, TRAIN_PLAN_POSSIBLE, NULL);
  layout.recompute = TRAIN_RECOMPUTE_BLOCK;
  expect(&job, &layout, TRAIN_PLAN_LIMIT_RECOMPUTE, "--recompute none");
}

static train_plan_layout_t sliced(int tp, int cp, train_slices_t slices) {
  train_plan_layout_t layout = layout_of(1, tp, cp, 2);
  layout.schedule.kind = TRAIN_SCHEDULE_TERAPIPE;
  layout.schedule.slices = slices.count;
  layout.slices = slices;
  return layout;
}

Test(plan_check, slices) {
  const train_slices_t even = {2, {16, 16}}, uneven = {3, {15, 10, 7}}, few = {2, {16, 15}};
  train_plan_job_t job = small_job();
  train_plan_layout_t layout = sliced(2, 1, uneven);
  expect(&job, &layout, TRAIN_PLAN_POSSIBLE, NULL);
  layout.sequence = true;
  expect(&job, &layout, TRAIN_PLAN_LIMIT_SLICES, "give multiples of 2");
  layout = sliced(1, 2, even);
  expect(&job, &layout, TRAIN_PLAN_LIMIT_SLICES, "give --cp 1, or --schedule 1f1b");
  layout = sliced(1, 1, few);
  expect(&job, &layout, TRAIN_PLAN_LIMIT_SLICES, "change the last one by +1");
  job.model.experts = 4;
  job.model.top_k = 1;
  job.model.moe_every = 1;
  layout = sliced(1, 1, even);
  expect(&job, &layout, TRAIN_PLAN_LIMIT_SLICES, "leave out --experts");
}

/* FLOPs of a slice by a sum over its tokens. */
static double flops_of(const train_model_config_t *config, int first, int length) {
  double width = config->width, layers = config->layers, sum = 0;
  for (int at = first; at < first + length; at++) {
    sum += 6 * (12 * layers * width * width + config->vocabulary * width);
    sum += 12 * layers * width * (at + 1);
  }
  return sum;
}

/* No slice is a unit slower than the mean. */
Test(plan_slices, take_equal_time) {
  const train_model_config_t config = {61, 1024, 4, 2, 32};
  for (int count = 1; count <= 8; count++) {
    for (int multiple = 1; multiple <= 8; multiple *= 2) {
      train_slices_t slices;
      int first = 0;
      cr_assert_eq(train_plan_slices(&config, count, multiple, &slices), COLL_OK);
      cr_assert_eq(slices.count, count);
      double mean = flops_of(&config, 0, 1024) / count, unit = flops_of(&config, 1016, 8);
      for (int i = 0; i < count; i++) {
        cr_expect_leq(flops_of(&config, first, slices.lengths[i]), mean + unit);
        cr_expect_eq(slices.lengths[i] % multiple, 0);
        first += slices.lengths[i];
      }
      cr_expect_eq(first, 1024);
      cr_expect(count == 1 || slices.lengths[0] > slices.lengths[count - 1]);
    }
  }
}

Test(plan_slices, that_do_not_fit) {
  train_model_config_t config = {61, 1024, 4, 2, 32};
  train_slices_t slices;
  cr_expect_eq(train_plan_slices(&config, TRAIN_SLICES_MAX + 1, 1, &slices), COLL_ERROR_INVALID);
  cr_expect(strstr(base_last_error(), "give 1 to 128") != NULL, "%s", base_last_error());
  config.context = 1021; /* a prime */
  cr_expect_eq(train_plan_slices(&config, 2, 1, &slices), COLL_ERROR_INVALID);
  cr_expect_eq(train_plan_slices(&config, 2, 2, &slices), COLL_ERROR_INVALID);
  cr_expect(strstr(base_last_error(), "another --context") != NULL, "%s", base_last_error());
}
