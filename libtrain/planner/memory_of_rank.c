/* Memory of each pipeline rank, as its store and its models allocate it. */
#include "libtrain/model/model.h"
#include "libtrain/parallel/axis.h"
#include "libtrain/parallel/memory.h"
#include "libtrain/parallel/versions.h"
#include "libtrain/planner/parts.h"

/* The options of the models of a pipeline rank. Only the size of `context` matters. */
static train_model_options_t options_of(const train_plan_job_t *job,
                                        const train_plan_layout_t *layout, int slots,
                                        train_axis_t *context) {
  const train_schedule_shape_t *schedule = &layout->schedule;
  *context = (train_axis_t){.group.size = plan_size(layout, TRAIN_MESH_CP)};
  return (train_model_options_t){
      .sequences = plan_sequences(job, layout),
      .slots = slots,
      .slices = layout->slices,
      .axes = {.sequence_parallel = layout->sequence,
               .context = context,
               .context_kind = layout->attention},
      .experts.capacity_factor = job->capacity_factor,
      .recompute = layout->recompute,
      .split_backward = schedule->kind == TRAIN_SCHEDULE_ZB_H1 && schedule->stages > 1,
      .precision = job->precision,
      .pool = job->pool};
}

/* What a stage has sent to the next and to the previous one, and they have not received. With
 * virtual stages the first and the last rank are neighbours, too. */
static size_t channel_bytes(const train_plan_job_t *job, const train_plan_layout_t *layout,
                            int window, int rank) {
  size_t element =
      train_dtype_bytes(train_precision_stored(job->precision, TRAIN_KIND_ACTIVATIONS));
  size_t rows = plan_pass_rows(job, layout);
  bool wraps = layout->schedule.chunks > 1;
  size_t neighbours = (rank > 0 || wraps) + (rank < layout->schedule.stages - 1 || wraps);
  if (layout->sequence) rows /= (size_t)plan_size(layout, TRAIN_MESH_TP);
  return (size_t)window * neighbours * rows * (size_t)job->model.width * element;
}

coll_status_t plan_memory_of_stage(const train_plan_job_t *job, const train_plan_layout_t *layout,
                                   const plan_parts_t *parts, int rank,
                                   train_plan_memory_t *memory) {
  const train_layout_t *part = parts->layouts[rank];
  train_axis_t context;
  train_model_options_t model = options_of(job, layout, parts->slots[rank], &context);
  const train_store_options_t options = {
      .stage = layout->zero, .bucket_bytes = job->bucket_bytes, .precision = job->precision};
  train_memory_t store;
  *memory = (train_plan_memory_t){.buffers = channel_bytes(job, layout, parts->window, rank),
                                  .stage = rank};
  COLL_TRY(
      train_memory_predict(part, &model, &options, plan_size(layout, TRAIN_MESH_DATA), &store));
  memory->activations = store.activations;
  for (model.chunk = 1; model.chunk < part->part.chunk_count; model.chunk++) {
    memory->activations += train_model_bytes(part, &model);
  }
  memory->parameters = store.parameters;
  train_dtype_t dtype = train_precision_stored(job->precision, TRAIN_KIND_WEIGHTS);
  memory->weights = store.weights + train_versions_bytes(part, dtype, parts->copies[rank]);
  memory->gradients = store.gradients;
  memory->moments = store.moments;
  memory->workspaces = store.workspaces;
  memory->total = memory->parameters + memory->weights + memory->gradients + memory->moments +
                  memory->workspaces + memory->activations + memory->buffers;
  return COLL_OK;
}

coll_status_t plan_memory(const train_plan_job_t *job, const train_plan_layout_t *layout,
                          const plan_parts_t *parts, train_plan_memory_t *memory) {
  *memory = (train_plan_memory_t){0};
  for (int rank = 0; rank < parts->count; rank++) {
    train_plan_memory_t of_rank;
    COLL_TRY(plan_memory_of_stage(job, layout, parts, rank, &of_rank));
    if (of_rank.total > memory->total) *memory = of_rank;
  }
  return COLL_OK;
}

coll_status_t plan_check_memory(const train_plan_job_t *job, const train_plan_memory_t *memory) {
  if (job->memory == 0 || memory->total <= job->memory) return COLL_OK;
  return base_fail(COLL_ERROR_INVALID,
                   "a rank of stage %d needs %.2f GB of %.2f GB: more --tp, --pp or --zero divide "
                   "it, --recompute stores less",
                   memory->stage, (double)memory->total * 1e-9, (double)job->memory * 1e-9);
}
