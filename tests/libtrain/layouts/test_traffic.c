/*
 * The bytes of a step by axis: what libcoll has sent, what the axes have counted, and the planner's
 * closed formulas are equal to the byte.
 */
#include <criterion/criterion.h>
#include <inttypes.h>

#include "libtrain/layouts/job.h"
#include "libtrain/planner/plan.h"

#define RANKS_MAX 8

static int at_least_1(int value) {
  return value > 0 ? value : 1;
}

/* What the planner predicts for the trial. */
static train_plan_traffic_t plan(const layout_trial_t *trial) {
  int tp = at_least_1(trial->tp), cp = at_least_1(trial->cp), dp = at_least_1(trial->dp);
  int pp = at_least_1(trial->pp), ranks = tp * cp * dp * pp;
  static const int host_of[RANKS_MAX];
  const train_mesh_options_t mesh = {
      .size = {tp, cp, dp, pp}, .ep = at_least_1(trial->ep), .etp = trial->etp};
  const train_plan_job_t job = {.model = *layout_trial_config(trial),
                                .batch = LAYOUT_BATCH,
                                .precision = trial->precision,
                                .bucket_bytes = LAYOUT_BUCKET_BYTES};
  const train_plan_machine_t machine = {.ranks = ranks,
                                        .host_of = host_of,
                                        .bandwidth = {1e9, 1e9},
                                        .latency_s = {1e-6, 1e-6},
                                        .flops = 1e12};
  train_plan_layout_t layout = {.schedule = {.kind = trial->schedule,
                                             .stages = pp,
                                             .micro_batches = at_least_1(trial->micro_batches),
                                             .steps = 1,
                                             .chunks = at_least_1(trial->chunks),
                                             .slices = train_slices_count(&trial->slices)},
                                .slices = trial->slices,
                                .zero = trial->zero,
                                .sequence = trial->sequence_parallel,
                                .attention = trial->context_kind,
                                .recompute = trial->recompute};
  train_plan_cost_t cost;
  train_plan_limit_t limit;
  cr_assert_eq(train_mesh_shape_init(&mesh, ranks, &layout.mesh), COLL_OK);
  cr_assert_eq(train_plan_predict(&job, &layout, &machine, &cost, &limit), COLL_OK, "%s",
               base_last_error());
  return cost.traffic;
}

/* The store counts as the ZeRO paper does: N / (N - 1) of what N ranks send. */
static uint64_t counted_by_ring(const layout_trial_t *trial, const layout_outcome_t *outcome,
                                train_traffic_axis_t axis) {
  uint64_t ranks = (uint64_t)(at_least_1(trial->dp) * at_least_1(trial->cp));
  uint64_t counted = outcome->counted[axis];
  return axis == TRAIN_TRAFFIC_DATA ? counted / ranks * (ranks - 1) : counted;
}

static void check(layout_trial_t trial) {
  static const train_mesh_group_t groups[TRAIN_TRAFFIC_AXES] = {
      TRAIN_MESH_DATA, TRAIN_MESH_TP,        TRAIN_MESH_CP,
      TRAIN_MESH_PP,   TRAIN_MESH_EMBEDDING, TRAIN_MESH_EP};
  char text[200];
  trial.rings = true;
  trial.steps = 2;
  layout_outcome_t outcome = layout_train(&trial);
  const train_plan_traffic_t planned = plan(&trial);
  for (int i = 0; i < TRAIN_TRAFFIC_AXES; i++) {
    uint64_t expected = train_plan_bytes(&planned, groups[i]);
    uint64_t counted = counted_by_ring(&trial, &outcome, (train_traffic_axis_t)i);
    cr_expect(outcome.wired[i] == expected && counted == expected,
              "%s, %s: %" PRIu64 " bytes sent, %" PRIu64 " counted, %" PRIu64 " planned",
              layout_trial_text(&trial, text), train_traffic_names[i], outcome.wired[i], counted,
              expected);
  }
  layout_outcome_free(&outcome);
}

/* What is sent to experts depends on the routers: the planner knows a mean of it. The rest is
 * exact, and all of it is counted. The store's counts have shares of two groups (counted_by_ring).
 */
static void check_experts(layout_trial_t trial) {
  static const train_traffic_axis_t axes[] = {TRAIN_TRAFFIC_TENSOR, TRAIN_TRAFFIC_CONTEXT,
                                              TRAIN_TRAFFIC_PIPELINE, TRAIN_TRAFFIC_EXPERTS};
  char text[200];
  trial.rings = true;
  trial.steps = 2;
  layout_outcome_t outcome = layout_train(&trial);
  const train_plan_traffic_t planned = plan(&trial);
  layout_trial_text(&trial, text);
  for (size_t i = 0; i < sizeof axes / sizeof axes[0]; i++) {
    train_traffic_axis_t axis = axes[i];
    cr_expect_eq(outcome.wired[axis], outcome.counted[axis],
                 "%s, %s: %" PRIu64 " bytes sent, %" PRIu64 " counted", text,
                 train_traffic_names[axis], outcome.wired[axis], outcome.counted[axis]);
  }
  cr_expect_gt(outcome.wired[TRAIN_TRAFFIC_EXPERTS], 0, "%s", text);
  uint64_t data = train_plan_bytes(&planned, TRAIN_MESH_DATA) +
                  train_plan_bytes(&planned, TRAIN_MESH_EXPERT_DATA);
  cr_expect_eq(outcome.wired[TRAIN_TRAFFIC_DATA], data,
               "%s, data: %" PRIu64 " bytes sent, %" PRIu64 " planned", text,
               outcome.wired[TRAIN_TRAFFIC_DATA], data);
  layout_outcome_free(&outcome);
}

#define CHECK(...) check((layout_trial_t){__VA_ARGS__})
#define CHECK_EXPERTS(...) \
  check_experts((layout_trial_t){.config = &layout_two_of_eight, __VA_ARGS__})

Test(layout_traffic, tensor) {
  CHECK(.tp = 2);
  CHECK(.tp = 4, .micro_batches = 2);
  CHECK(.tp = 2, .recompute = TRAIN_RECOMPUTE_ATTENTION);
  CHECK(.tp = 4, .recompute = TRAIN_RECOMPUTE_BLOCK);
}

Test(layout_traffic, sequence) {
  CHECK(.tp = 2, .sequence_parallel = true);
  CHECK(.tp = 4, .sequence_parallel = true, .micro_batches = 4);
  CHECK(.tp = 4, .sequence_parallel = true, .recompute = TRAIN_RECOMPUTE_ATTENTION);
  CHECK(.tp = 4, .sequence_parallel = true, .recompute = TRAIN_RECOMPUTE_BLOCK);
}

Test(layout_traffic, tensor_overlapped) {
  CHECK(.tp = 2, .tensor_overlap = 1);
  CHECK(.tp = 4, .tensor_overlap = 4, .micro_batches = 2);
  CHECK(.tp = 2, .sequence_parallel = true, .tensor_overlap = 1);
  CHECK(.tp = 4, .sequence_parallel = true, .tensor_overlap = 2, .micro_batches = 2);
  CHECK(.tp = 2, .sequence_parallel = true, .tensor_overlap = 3,
        .recompute = TRAIN_RECOMPUTE_BLOCK);
}

Test(layout_traffic, data) {
  CHECK(.dp = 2);
  CHECK(.dp = 4, .zero = 1, .micro_batches = 2);
  CHECK(.dp = 4, .zero = 2, .micro_batches = 2);
  CHECK(.dp = 2, .zero = 3);
  CHECK(.dp = 4, .zero = 3, .micro_batches = 4);
}

Test(layout_traffic, context) {
  CHECK(.cp = 2);
  CHECK(.cp = 4, .micro_batches = 2);
  CHECK(.cp = 4, .context_kind = TRAIN_CONTEXT_ULYSSES);
  CHECK(.cp = 2, .recompute = TRAIN_RECOMPUTE_BLOCK);
  CHECK(.cp = 2, .tp = 2, .recompute = TRAIN_RECOMPUTE_ATTENTION);
}

Test(layout_traffic, pipeline) {
  CHECK(.pp = 2, .micro_batches = 4);
  CHECK(.pp = 4, .micro_batches = 8, .schedule = TRAIN_SCHEDULE_1F1B);
  CHECK(.pp = 2, .chunks = 2, .micro_batches = 4, .schedule = TRAIN_SCHEDULE_INTERLEAVED);
  CHECK(.pp = 4, .micro_batches = 2, .schedule = TRAIN_SCHEDULE_TERAPIPE,
        .slices = {3, {14, 11, 7}});
}

Test(layout_traffic, experts) {
  CHECK_EXPERTS(.dp = 2, .ep = 2);
  CHECK_EXPERTS(.dp = 4, .ep = 4, .zero = 1, .micro_batches = 2);
  CHECK_EXPERTS(.dp = 4, .ep = 2, .zero = 2, .recompute = TRAIN_RECOMPUTE_BLOCK);
  CHECK_EXPERTS(.dp = 2, .tp = 2, .ep = 2);
  CHECK_EXPERTS(.dp = 2, .tp = 2, .ep = 2, .etp = 1, .sequence_parallel = true);
  CHECK_EXPERTS(.cp = 2, .dp = 2, .ep = 4);
  CHECK_EXPERTS(.dp = 2, .pp = 2, .ep = 2, .micro_batches = 4, .schedule = TRAIN_SCHEDULE_1F1B);
}

Test(layout_traffic, together) {
  CHECK(.dp = 2, .tp = 2, .zero = 2, .sequence_parallel = true, .micro_batches = 2);
  CHECK(.dp = 2, .tp = 2, .zero = 1, .micro_batches = 2);
  CHECK(.dp = 2, .tp = 2, .pp = 2, .micro_batches = 4, .schedule = TRAIN_SCHEDULE_1F1B,
        .sequence_parallel = true);
  CHECK(.tp = 2, .pp = 2, .precision = TRAIN_PRECISION_BF16, .micro_batches = 4,
        .schedule = TRAIN_SCHEDULE_GPIPE);
  CHECK(.dp = 2, .tp = 2, .pp = 2, .micro_batches = 2, .schedule = TRAIN_SCHEDULE_TERAPIPE,
        .zero = 1, .recompute = TRAIN_RECOMPUTE_BLOCK, .slices = {3, {14, 11, 7}});
  CHECK(.tp = 2, .pp = 2, .micro_batches = 2, .schedule = TRAIN_SCHEDULE_TERAPIPE,
        .sequence_parallel = true, .slices = {3, {14, 10, 8}});
}
