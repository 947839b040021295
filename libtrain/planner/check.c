/* Whether a layout is possible, and its whole prediction. */
#include "libtrain/mesh/fit.h"
#include "libtrain/planner/parts.h"

static coll_status_t check_mesh(const train_plan_job_t *job, const train_plan_layout_t *layout) {
  const train_mesh_demands_t demands = {.virtual_stages = layout->schedule.chunks,
                                        .micro_batches = layout->schedule.micro_batches,
                                        .blocks = layout->blocks,
                                        .block_ranges = layout->block_ranges,
                                        .experts = job->model.experts,
                                        .ulysses = layout->attention == TRAIN_CONTEXT_ULYSSES,
                                        .sequence_parallel = layout->sequence};
  return train_mesh_fit(&layout->mesh, &job->model, &demands);
}

static coll_status_t check_batch(const train_plan_job_t *job, const train_plan_layout_t *layout) {
  int data = plan_size(layout, TRAIN_MESH_DP), micro = layout->schedule.micro_batches;
  int64_t parts = (int64_t)data * micro;
  if (job->batch % parts == 0) return COLL_OK;
  return base_fail(COLL_ERROR_INVALID,
                   "a batch of %d does not split evenly over --dp %d with --accumulate %d: make "
                   "--batch a multiple of %lld",
                   job->batch, data, micro, (long long)parts);
}

static coll_status_t check_zero(const train_plan_layout_t *layout) {
  int stages = plan_size(layout, TRAIN_MESH_PP);
  if (layout->zero < 2 || stages == 1) return COLL_OK;
  return base_fail(COLL_ERROR_INVALID,
                   "--zero %d with --pp %d would reduce gradients%s in each of the micro-batches: "
                   "give --zero 1; the stages divide gradients and parameters already",
                   layout->zero, stages, layout->zero == 3 ? " and gather parameters" : "");
}

static coll_status_t check_slices(const train_plan_job_t *job, const train_plan_layout_t *layout) {
  return train_slices_check(&layout->slices, &job->model, plan_size(layout, TRAIN_MESH_TP),
                            layout->sequence, plan_size(layout, TRAIN_MESH_CP));
}

static coll_status_t check_recompute(const train_plan_layout_t *layout) {
  bool splits = layout->schedule.kind == TRAIN_SCHEDULE_ZB_H1 && layout->schedule.stages > 1;
  if (!splits || layout->recompute == TRAIN_RECOMPUTE_NONE) return COLL_OK;
  return base_fail(COLL_ERROR_INVALID,
                   "--schedule zb-h1 keeps activations for the later part of its backward passes, "
                   "so that recomputing them saves nothing: give --recompute none or --schedule "
                   "1f1b");
}

/* Stages that update at different times (trainer_steps.c refuses the same). */
static coll_status_t check_asynchronous(const train_plan_job_t *job,
                                        const train_plan_layout_t *layout) {
  const train_schedule_shape_t *shape = &layout->schedule;
  if (shape->stages == 1 || !train_schedule_is_asynchronous(shape->kind)) return COLL_OK;
  const char *name = train_schedule_names[shape->kind];
  if (!job->model.untied) {
    return base_fail(COLL_ERROR_INVALID,
                     "with --schedule %s stages update at different times, and the first and the "
                     "last one share the token table: give --untied, or --schedule 1f1b",
                     name);
  }
  if (train_policy_of(job->precision)->loss_scaling) {
    return base_fail(COLL_ERROR_INVALID,
                     "with --schedule %s stages update at different times, and cannot scale the "
                     "loss together: give --precision bf16, or --schedule 1f1b",
                     name);
  }
  if (shape->kind == TRAIN_SCHEDULE_PIPEDREAM && shape->micro_batches > 1) {
    return base_fail(COLL_ERROR_INVALID,
                     "schedule pipedream updates after every micro-batch: give --accumulate 1, or "
                     "--schedule pipedream-2bw");
  }
  return COLL_OK;
}

coll_status_t train_plan_check(const train_plan_job_t *job, const train_plan_layout_t *layout,
                               train_plan_limit_t *limit) {
  *limit = TRAIN_PLAN_LIMIT_MESH;
  COLL_TRY(check_mesh(job, layout));
  *limit = TRAIN_PLAN_LIMIT_BATCH;
  COLL_TRY(check_batch(job, layout));
  *limit = TRAIN_PLAN_LIMIT_ZERO;
  COLL_TRY(check_zero(layout));
  *limit = TRAIN_PLAN_LIMIT_SLICES;
  COLL_TRY(check_slices(job, layout));
  *limit = TRAIN_PLAN_LIMIT_RECOMPUTE;
  COLL_TRY(check_recompute(layout));
  *limit = TRAIN_PLAN_LIMIT_SCHEDULE;
  COLL_TRY(check_asynchronous(job, layout));
  *limit = TRAIN_PLAN_POSSIBLE;
  return COLL_OK;
}

coll_status_t train_plan_predict(const train_plan_job_t *job, const train_plan_layout_t *layout,
                                 const train_plan_machine_t *machine, train_plan_cost_t *cost,
                                 train_plan_limit_t *limit) {
  plan_links_t links;
  plan_parts_t parts;
  *limit = TRAIN_PLAN_LIMIT_BUCKET;
  COLL_TRY(plan_links_init(&layout->mesh, machine, &links));
  COLL_TRY(plan_traffic(job, layout, &links, &cost->traffic));
  plan_time(job, layout, machine, &cost->traffic, &cost->time);
  coll_status_t status = plan_parts_init(job, layout, &parts);
  if (status != COLL_OK) *limit = TRAIN_PLAN_LIMIT_SCHEDULE;
  if (status == COLL_OK) status = plan_memory(job, layout, &parts, &cost->memory);
  plan_parts_free(&parts);
  COLL_TRY(status);
  *limit = TRAIN_PLAN_LIMIT_MEMORY;
  COLL_TRY(plan_check_memory(job, &cost->memory));
  *limit = TRAIN_PLAN_POSSIBLE;
  return COLL_OK;
}
