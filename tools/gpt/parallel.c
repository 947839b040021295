/* From settings to the mesh, and from the mesh to this rank's part of the model. */
#include "tools/gpt/parallel.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "libtrain/common/random.h"
#include "libtrain/mesh/fit.h"
#include "libtrain/parallel/layer_profile.h"
#include "libtrain/planner/slices.h"
#include "libtrain/schedule/stages.h"
#include "tools/gpt/slices.h"

/* Of what ranks must have alike before they make communicators together. */
static uint64_t digest_of(const gpt_settings_t *settings) {
  const gpt_mesh_settings_t *mesh = &settings->mesh;
  const int64_t numbers[] = {mesh->ep,
                             mesh->etp,
                             settings->sequence_parallel,
                             settings->context_kind,
                             settings->schedule,
                             settings->virtual_stages,
                             settings->naive_dp,
                             settings->tensor_overlap,
                             settings->trace != NULL};
  uint64_t digest = train_random_digest(0, mesh->size, sizeof mesh->size);
  if (mesh->order != NULL) digest = train_random_digest(digest, mesh->order, strlen(mesh->order));
  const char *const texts[] = {settings->slices, settings->partition, settings->layer_costs};
  for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
    size_t length = texts[i] != NULL ? strlen(texts[i]) : 0;
    digest = train_random_digest(digest, &length, sizeof length);
    if (length > 0) digest = train_random_digest(digest, texts[i], length);
  }
  return train_random_digest(digest, numbers, sizeof numbers);
}

coll_status_t gpt_parallel_open(const gpt_settings_t *settings, const train_group_t *group,
                                gpt_parallel_t *parallel) {
  const gpt_mesh_settings_t *mesh = &settings->mesh;
  train_mesh_shape_t shape;
  train_placement_t placement;
  COLL_TRY(train_group_check_same(group, digest_of(settings), "options of parallel training"));
  coll_status_t status = gpt_mesh_shape(mesh, group->size, &shape);
  COLL_TRY(train_group_agree(group, status));
  COLL_TRY(gpt_mesh_place(group, &placement));
  if (group->rank == 0) status = gpt_mesh_show(mesh, &shape, &placement);
  status = train_group_agree(group, status);
  if (status != COLL_OK) {
    train_placement_free(&placement);
    return status;
  }
  COLL_TRY(train_mesh_create(group, &shape, &placement, &parallel->mesh));
  parallel->ranks = train_ranks_of_mesh(parallel->mesh, settings->sequence_parallel,
                                        (train_context_kind_t)settings->context_kind);
  if (settings->tensor_overlap != GPT_TP_OVERLAP_AUTO) {
    parallel->ranks.axes.tensor_overlap = settings->tensor_overlap;
  }
  return COLL_OK;
}

static int chunks_of(const gpt_settings_t *settings) {
  return settings->virtual_stages > 1 ? (int)settings->virtual_stages : 1;
}

/* The micro-batches of several stages are in flight together; gradients that are reduced in each of
 * them would be sent accumulate times. */
static coll_status_t check_pipeline(const gpt_settings_t *settings, int stages) {
  bool interleaved = settings->schedule == TRAIN_SCHEDULE_INTERLEAVED;
  if (stages > 1 && settings->zero >= 2) {
    return base_fail(COLL_ERROR_INVALID,
                     "--zero %d with --pp %d would reduce all gradients in each of the "
                     "micro-batches that a pipeline needs: give --zero 1",
                     (int)settings->zero, stages);
  }
  if (chunks_of(settings) > 1 && !interleaved) {
    return base_fail(COLL_ERROR_INVALID, "--virtual-stages %d needs --schedule interleaved, not %s",
                     chunks_of(settings), train_schedule_names[settings->schedule]);
  }
  return COLL_OK;
}

/* The slices of --schedule terapipe; without a pipeline there are none, and none may be asked for.
 */
static coll_status_t divide_sequences(const gpt_settings_t *settings,
                                      const train_model_config_t *config,
                                      const train_mesh_shape_t *shape, train_slices_t *slices) {
  int tp = shape->size[TRAIN_MESH_TP], multiple = settings->sequence_parallel ? tp : 1;
  gpt_slices_t wanted;
  if (shape->size[TRAIN_MESH_PP] == 1 && settings->slices != NULL) {
    return base_fail(
        COLL_ERROR_INVALID,
        "--slices %s cuts sequences for a pipeline, and --pp 1 is none: give --pp 2, or "
        "leave out --slices",
        settings->slices);
  }
  if (shape->size[TRAIN_MESH_PP] == 1) return COLL_OK;
  if (settings->schedule != TRAIN_SCHEDULE_TERAPIPE) return COLL_OK;
  COLL_TRY(gpt_slices_read(settings->slices, TRAIN_PLAN_SLICES, TRAIN_SLICES_MAX, &wanted));
  *slices = wanted.lengths;
  if (slices->count == 0) COLL_TRY(train_plan_slices(config, wanted.count, multiple, slices));
  return train_slices_check(slices, config, tp, settings->sequence_parallel,
                            shape->size[TRAIN_MESH_CP]);
}

/* One rank updates the whole model. */
static coll_status_t check_naive(const gpt_settings_t *settings, const train_mesh_shape_t *shape) {
  static const train_mesh_group_t others[] = {TRAIN_MESH_TP, TRAIN_MESH_CP, TRAIN_MESH_PP,
                                              TRAIN_MESH_EP};
  if (!settings->naive_dp) return COLL_OK;
  if (settings->zero > 0) {
    return base_fail(COLL_ERROR_INVALID,
                     "--naive-dp has rank 0 hold all moments and update alone, --zero %d divides "
                     "them: leave one of the two out",
                     (int)settings->zero);
  }
  for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
    int size = shape->size[others[i]];
    if (size == 1) continue;
    return base_fail(COLL_ERROR_INVALID,
                     "--naive-dp has rank 0 update the whole model, --%s %d divides it among "
                     "ranks: leave one of the two out",
                     train_mesh_group_name(others[i]), size);
  }
  return COLL_OK;
}

/* With auto there may be nothing to choose from. */
static coll_status_t check_overlap(const gpt_settings_t *settings,
                                   const train_mesh_shape_t *shape) {
  if (settings->tensor_overlap == 0 || settings->tensor_overlap == GPT_TP_OVERLAP_AUTO ||
      shape->size[TRAIN_MESH_TP] > 1) {
    return COLL_OK;
  }
  return base_fail(COLL_ERROR_INVALID,
                   "--tp-overlap %d overlaps the collectives of tensor ranks, of which there are "
                   "none: give --tp 2 or more, or leave it out",
                   settings->tensor_overlap);
}

/* The layers of each virtual stage. A single stage has all of them. */
static coll_status_t divide_layers(const gpt_settings_t *settings,
                                   const train_model_config_t *config, gpt_parallel_t *parallel) {
  gpt_partition_t *partition = &parallel->partition;
  bool measured = partition->costs != NULL;
  if (!measured) {
    COLL_TRY(gpt_partition_read(settings->partition, settings->layer_costs, partition));
  }
  return gpt_partition_cut(config, parallel->ranks.stages * chunks_of(settings), partition);
}

/* On rank 0. */
static coll_status_t measure_layers(const gpt_settings_t *settings,
                                    const train_model_config_t *config, train_pool_t *pool,
                                    const gpt_parallel_t *parallel, train_layer_times_t *times) {
  int length = config->context / parallel->mesh->shape.size[TRAIN_MESH_CP];
  train_model_options_t options;
  COLL_TRY(gpt_parallel_passes(settings, parallel, pool, &options));
  if (parallel->ranks.all.rank > 0) return COLL_OK;
  return train_layer_times_measure(config, &options, length, times);
}

coll_status_t gpt_parallel_profile(const gpt_settings_t *settings,
                                   const train_model_config_t *config, train_pool_t *pool,
                                   gpt_parallel_t *parallel) {
  const train_group_t *all = &parallel->ranks.all;
  gpt_partition_t *partition = &parallel->partition;
  train_layer_times_t times = {0};
  char text[GPT_LAYER_COSTS_BYTES];
  bool profiles = settings->partition != NULL && strcmp(settings->partition, "profile") == 0;
  if (!profiles || parallel->ranks.stages == 1) return COLL_OK;
  partition->kind = GPT_PARTITION_COSTS;
  partition->cost_count = config->layers + 2;
  coll_status_t status = base_alloc((size_t)partition->cost_count, sizeof(double), "layers",
                                    (void **)&partition->costs);
  if (status == COLL_OK) status = measure_layers(settings, config, pool, parallel, &times);
  COLL_TRY(train_group_agree(all, status));
  COLL_TRY(train_group_broadcast_bytes(all, &times, sizeof times, 0));
  train_layer_times_list(config, &times, partition->costs);
  gpt_layer_costs_round(partition->costs, partition->cost_count);
  if (all->rank > 0) return COLL_OK;
  printf("measured in ms: --layer-costs %s\n",
         gpt_layer_costs_text(partition->costs, partition->cost_count, text));
  return COLL_OK;
}

coll_status_t gpt_parallel_divide(const gpt_settings_t *settings,
                                  const train_model_config_t *config, bool model_is_fixed,
                                  gpt_parallel_t *parallel) {
  const train_mesh_t *mesh = parallel->mesh;
  COLL_TRY(divide_layers(settings, config, parallel));
  const train_mesh_demands_t demands = {.blocks = parallel->partition.blocks,
                                        .block_ranges = parallel->partition.ranges,
                                        .experts = config->experts,
                                        .virtual_stages = chunks_of(settings),
                                        .micro_batches = (int)settings->accumulate,
                                        .ulysses = settings->context_kind == TRAIN_CONTEXT_ULYSSES,
                                        .sequence_parallel = settings->sequence_parallel,
                                        .model_is_fixed = model_is_fixed};
  COLL_TRY(train_mesh_fit(&mesh->shape, config, &demands));
  COLL_TRY(check_pipeline(settings, parallel->ranks.stages));
  COLL_TRY(check_naive(settings, &mesh->shape));
  COLL_TRY(check_overlap(settings, &mesh->shape));
  COLL_TRY(divide_sequences(settings, config, &mesh->shape, &parallel->slices));
  const train_part_t part =
      train_ranks_cut(mesh, config->layers, chunks_of(settings), parallel->partition.blocks);
  return train_layout_create_part(config, &part, &parallel->part);
}

void gpt_parallel_close(gpt_parallel_t *parallel) {
  train_layout_destroy(parallel->part);
  gpt_partition_free(&parallel->partition);
  train_mesh_destroy(parallel->mesh);
  *parallel = (gpt_parallel_t){0};
}

coll_status_t gpt_parallel_passes(const gpt_settings_t *settings, const gpt_parallel_t *parallel,
                                  train_pool_t *pool, train_model_options_t *options) {
  COLL_TRY(gpt_settings_passes(settings, parallel->ranks.shares, options));
  options->pool = pool;
  options->slices = parallel->slices;
  return COLL_OK;
}

bool gpt_parallel_is_starved(const gpt_settings_t *settings, const gpt_parallel_t *parallel) {
  train_schedule_kind_t kind = settings->schedule;
  if (kind == TRAIN_SCHEDULE_NAIVE || train_schedule_is_asynchronous(kind)) return false;
  int parts = (int)settings->accumulate * train_slices_count(&parallel->slices);
  return parts < parallel->ranks.stages;
}

coll_status_t gpt_parallel_memory(const gpt_settings_t *settings, const gpt_parallel_t *parallel,
                                  train_pool_t *pool, train_memory_t *memory) {
  const train_store_options_t store = gpt_settings_store(settings);
  const train_options_t run = gpt_settings_options(settings);
  bool spans = train_schedule_is_asynchronous(run.schedule);
  train_executor_options_t options = {.micro_batches = (int)settings->accumulate,
                                      .schedule = run.schedule,
                                      .steps = spans ? train_longest_span(&run, 0) : 0};
  COLL_TRY(gpt_parallel_passes(settings, parallel, pool, &options.model));
  const train_group_t *data = &parallel->ranks.data;
  COLL_TRY(train_memory_predict_store(parallel->part, &store, data->size, memory));
  *memory = train_memory_on_rank(&store, data->rank, memory);
  return train_executor_predict(parallel->part, &parallel->ranks, &options, &memory->activations);
}

static int shortest_of(const train_slices_t *slices) {
  int shortest = slices->lengths[0];
  for (int i = 1; i < slices->count; i++) {
    if (slices->lengths[i] < shortest) shortest = slices->lengths[i];
  }
  return shortest;
}

const char *gpt_parallel_text(const gpt_settings_t *settings, const gpt_parallel_t *parallel,
                              char text[GPT_PARALLEL_TEXT_BYTES]) {
  const train_mesh_shape_t *shape = &parallel->mesh->shape;
  char axes[GPT_PARALLEL_TEXT_BYTES / 2] = "";
  size_t used = 0;
  for (int axis = 0; axis < TRAIN_MESH_AXES; axis++) {
    train_mesh_group_t group = (train_mesh_group_t)axis;
    if (shape->size[axis] == 1 || group == TRAIN_MESH_DP) continue;
    const char *more = group == TRAIN_MESH_TP && settings->sequence_parallel ? " sp" : "";
    used += (size_t)snprintf(axes + used, sizeof axes - used, "%s%s %d%s", used > 0 ? ", " : "",
                             train_mesh_group_name(group), shape->size[axis], more);
  }
  if (shape->size[TRAIN_MESH_EP] > 1) {
    used += (size_t)snprintf(axes + used, sizeof axes - used, "%sep %d", used > 0 ? ", " : "",
                             shape->size[TRAIN_MESH_EP]);
  }
  if (shape->etp != shape->size[TRAIN_MESH_TP]) {
    used += (size_t)snprintf(axes + used, sizeof axes - used, ", etp %d", shape->etp);
  }
  if (settings->naive_dp) used = (size_t)snprintf(axes, sizeof axes, "naive dp");
  const char *schedule =
      shape->size[TRAIN_MESH_PP] > 1 ? train_schedule_names[settings->schedule] : "";
  const train_slices_t *slices = &parallel->slices;
  char cut[48] = "", blocks[TRAIN_STAGES_TEXT_BYTES];
  if (train_slices_are_cut(slices)) {
    snprintf(cut, sizeof cut, ", slices of %d to %d", shortest_of(slices),
             train_slices_longest(slices, 0));
  } else if (parallel->partition.blocks != NULL && shape->size[TRAIN_MESH_PP] > 1) {
    train_stages_text(parallel->partition.blocks, parallel->partition.ranges, blocks);
    snprintf(cut, sizeof cut, strlen(blocks) < 32 ? ", layers %s" : ", layers %.28s...", blocks);
  }
  snprintf(text, GPT_PARALLEL_TEXT_BYTES, "%d rank%s%s%s%s%s%s%s", shape->ranks,
           shape->ranks > 1 ? "s" : "", used > 0 ? " (" : "", axes, *schedule != '\0' ? " " : "",
           schedule, cut, used > 0 ? ")" : "");
  return text;
}
