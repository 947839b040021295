/* Which layers and how many parameters a rank holds, and how many micro-batches. */
#include "libtrain/planner/parts.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "libtrain/parallel/channel.h"
#include "libtrain/parallel/memory.h"
#include "libtrain/schedule/check.h"

/* ---- layers ---- */

train_part_t plan_part(const train_plan_job_t *job, const train_plan_layout_t *layout, int rank) {
  train_part_t part = train_part_cut(job->model.layers, rank, plan_size(layout, TRAIN_MESH_PP),
                                     layout->schedule.chunks, layout->blocks);
  part.tensor_ranks = plan_size(layout, TRAIN_MESH_TP);
  part.expert_ranks = plan_size(layout, TRAIN_MESH_EP);
  part.whole_experts = layout->mesh.etp < part.tensor_ranks;
  return part;
}

int plan_part_layers(const train_part_t *part) {
  int layers = 0;
  for (int chunk = 0; chunk < part->chunk_count; chunk++) layers += part->chunks[chunk].layers;
  return layers;
}

/* ---- the schedule ---- */

/* A schedule that has as many micro-batches in flight: with more than a few per stage their number
 * does not grow, except where all are. */
static train_schedule_shape_t shorter(const train_schedule_shape_t *shape) {
  train_schedule_shape_t result = *shape;
  int enough = 4 * shape->stages;
  bool all = shape->kind == TRAIN_SCHEDULE_GPIPE || shape->kind == TRAIN_SCHEDULE_TERAPIPE;
  if (train_schedule_is_asynchronous(shape->kind)) result.steps = enough;
  if (!all && result.micro_batches > enough) result.micro_batches = enough;
  return result;
}

/* As the executor does it. */
static coll_status_t find_slots(const train_plan_layout_t *layout, plan_parts_t *parts) {
  const train_schedule_shape_t shape = shorter(&layout->schedule);
  train_schedule_t *schedule;
  train_schedule_report_t report;
  parts->slots[0] = 1;
  if (shape.stages == 1) return COLL_OK;
  COLL_TRY(train_schedule_create(&shape, &schedule));
  coll_status_t status = train_schedule_check(schedule, &report);
  train_schedule_destroy(schedule);
  COLL_TRY(status);
  bool stashes = train_schedule_is_asynchronous(shape.kind);
  for (int rank = 0; rank < shape.stages; rank++) {
    parts->slots[rank] = report.stages[rank].slots;
    parts->copies[rank] = stashes ? report.stages[rank].versions - 1 : 0;
  }
  parts->window = report.window;
  train_schedule_report_free(&report);
  if (parts->window <= TRAIN_CHANNEL_BUFFERS_MAX) return COLL_OK;
  return base_fail(COLL_ERROR_INVALID, "schedule %s needs %d buffers between stages, more than %d",
                   train_schedule_names[shape.kind], parts->window, TRAIN_CHANNEL_BUFFERS_MAX);
}

/* ---- parts ---- */

coll_status_t plan_parts_init(const train_plan_job_t *job, const train_plan_layout_t *layout,
                              plan_parts_t *parts) {
  int count = plan_size(layout, TRAIN_MESH_PP);
  void *memory;
  *parts = (plan_parts_t){0};
  COLL_TRY(base_alloc((size_t)count, sizeof(train_layout_t *), "the parts", &memory));
  parts->layouts = memory;
  COLL_TRY(base_alloc((size_t)count, sizeof(int), "the parts", &memory));
  parts->slots = memory;
  COLL_TRY(base_alloc((size_t)count, sizeof(int), "the parts", &memory));
  parts->copies = memory;
  for (; parts->count < count; parts->count++) {
    const train_part_t part = plan_part(job, layout, parts->count);
    COLL_TRY(train_layout_create_part(&job->model, &part, &parts->layouts[parts->count]));
  }
  return find_slots(layout, parts);
}

void plan_parts_free(plan_parts_t *parts) {
  for (int i = 0; i < parts->count; i++) train_layout_destroy(parts->layouts[i]);
  free(parts->layouts);
  free(parts->slots);
  free(parts->copies);
  *parts = (plan_parts_t){0};
}

/* ---- parameters ---- */

static size_t root_elements(const train_plan_job_t *job, const train_part_t *part) {
  size_t width = (size_t)job->model.width, elements = 0;
  bool embeds = train_part_embeds(part);
  bool classifies = train_part_classifies(part, job->model.layers);
  int first, tokens;
  train_cut_range(job->model.vocabulary, part->tensor_rank, part->tensor_ranks, &first, &tokens);
  bool tied = !job->model.untied;
  if (embeds || (classifies && tied)) elements += (size_t)tokens * width;
  if (classifies && !tied) elements += (size_t)tokens * width;
  if (embeds) elements += (size_t)job->model.context * width;
  if (classifies) elements += 2 * width;
  return elements;
}

/* A MLP's matrices and the bias of its hidden layer, which so many tensor ranks divide. */
static size_t mlp_elements(const train_plan_job_t *job, int cuts) {
  size_t width = (size_t)job->model.width;
  return (8 * width * width + 4 * width) / (size_t)cuts;
}

/* Two layernorms, the biases that are added to the stream, and the matrix of a router are whole. */
static size_t block_elements(const train_plan_job_t *job, const train_part_t *part, int layer) {
  const train_model_config_t *config = &job->model;
  size_t width = (size_t)config->width, experts = (size_t)config->experts;
  size_t count = (4 * width * width + 3 * width) / (size_t)part->tensor_ranks + 5 * width;
  bool routes = train_model_has_experts(config, layer);
  if (routes) count += experts * width;
  if (!routes || config->shared_expert) {
    count += mlp_elements(job, part->tensor_ranks) + width;
  }
  return count;
}

static size_t expert_elements(const train_plan_job_t *job, const train_part_t *part) {
  size_t here = (size_t)(job->model.experts / part->expert_ranks);
  return here * (mlp_elements(job, train_part_expert_cuts(part)) + (size_t)job->model.width);
}

double plan_updated_elements(const train_plan_job_t *job, const train_plan_layout_t *layout,
                             const train_part_t *part) {
  size_t dense = root_elements(job, part), experts = 0;
  for (int chunk = 0; chunk < part->chunk_count; chunk++) {
    const train_layer_range_t *range = &part->chunks[chunk];
    for (int i = 0; i < range->layers; i++) {
      int layer = range->first_layer + i;
      dense += block_elements(job, part, layer);
      if (train_model_has_experts(&job->model, layer)) experts += expert_elements(job, part);
    }
  }
  if (layout->zero == 0) return (double)(dense + experts);
  return (double)dense / plan_size(layout, TRAIN_MESH_DATA) +
         (double)experts / plan_size(layout, TRAIN_MESH_EXPERT_DATA);
}

/* The root unit, the blocks, then the experts of those that have some. Returns their number;
 * units[1 + 2 * layers]. */
static int list_units(const train_plan_job_t *job, const train_part_t *part, train_unit_t units[]) {
  int count = 0;
  units[count++].count = root_elements(job, part);
  for (int experts = 0; experts <= 1; experts++) {
    for (int chunk = 0; chunk < part->chunk_count; chunk++) {
      const train_layer_range_t *range = &part->chunks[chunk];
      for (int i = 0; i < range->layers; i++) {
        int layer = range->first_layer + i;
        if (experts && !train_model_has_experts(&job->model, layer)) continue;
        units[count] = (train_unit_t){.count = block_elements(job, part, layer)};
        if (experts) {
          units[count] = (train_unit_t){.count = expert_elements(job, part),
                                        .experts = true,
                                        .groups = part->expert_ranks,
                                        .copies = train_part_expert_copies(part)};
        }
        count++;
      }
    }
  }
  return count;
}

coll_status_t plan_partition(const train_plan_job_t *job, const train_plan_layout_t *layout,
                             int rank, train_partition_t **partition) {
  const train_part_t part = plan_part(job, layout, rank);
  size_t most = 1 + 2 * (size_t)plan_part_layers(&part);
  void *memory;
  COLL_TRY(base_alloc(most, sizeof(train_unit_t), "the units", &memory));
  int count = list_units(job, &part, memory);
  coll_status_t status = train_partition_create(memory, count, job->bucket_bytes, layout->zero,
                                                plan_size(layout, TRAIN_MESH_DATA), partition);
  free(memory);
  return status;
}
