/* The list of layouts: job and machine from the options, then the search. */
#include "libtrain/planner/slices.h"
#include "tools/gpt/partition.h"
#include "tools/gpt/plan.h"
#include "tools/gpt/slices.h"

/* What the settings give as other than the default is decided. --slices has been read before. */
static train_plan_wanted_t wanted_of(const gpt_settings_t *settings,
                                     const gpt_partition_t *partition) {
  const gpt_mesh_settings_t *mesh = &settings->mesh;
  train_plan_wanted_t wanted = TRAIN_PLAN_WANTED_INIT;
  wanted.mesh.ep = (int)mesh->ep;
  wanted.mesh.etp = (int)mesh->etp;
  wanted.mesh.order = mesh->order;
  for (int axis = 0; axis < TRAIN_MESH_AXES; axis++) wanted.mesh.size[axis] = (int)mesh->size[axis];
  if (settings->zero > 0) wanted.zero = (int)settings->zero;
  if (settings->accumulate > 1) wanted.micro_batches = (int)settings->accumulate;
  if (settings->recompute != TRAIN_RECOMPUTE_NONE) wanted.recompute = settings->recompute;
  if (settings->sequence_parallel) wanted.sequence = 1;
  if (settings->context_kind != TRAIN_CONTEXT_RING) wanted.attention = settings->context_kind;
  if (settings->schedule != TRAIN_SCHEDULE_1F1B) wanted.schedule = settings->schedule;
  if (settings->virtual_stages > 1) wanted.virtual_stages = (int)settings->virtual_stages;
  wanted.layer_costs = partition->costs;
  wanted.blocks = partition->blocks;
  wanted.block_ranges = partition->ranges;
  gpt_slices_t slices;
  if (gpt_slices_read(settings->slices, 0, TRAIN_SLICES_MAX, &slices) == COLL_OK) {
    wanted.slices = slices.count;
    wanted.slice_lengths = slices.lengths;
  }
  return wanted;
}

static coll_status_t read_partition(const gpt_settings_t *settings, const train_layout_t *model,
                                    gpt_partition_t *partition) {
  COLL_TRY(gpt_partition_read(settings->partition, settings->layer_costs, partition));
  if (partition->kind == GPT_PARTITION_PROFILE) {
    return base_fail(COLL_ERROR_INVALID,
                     "gpt plan measures no layers: give --layer-costs as gpt train --partition "
                     "profile prints them");
  }
  return gpt_partition_check_costs(partition, &model->config);
}

static train_plan_job_t job_of(const gpt_settings_t *settings, const train_layout_t *model,
                               train_pool_t *pool, uint64_t memory) {
  return (train_plan_job_t){.model = model->config,
                            .batch = (int)settings->batch,
                            .capacity_factor = settings->capacity,
                            .precision = (train_precision_t)settings->precision,
                            .bfloat16_gradients = settings->comm_dtype == GPT_COMM_BFLOAT16,
                            .bucket_bytes = (size_t)settings->bucket,
                            .pool = pool,
                            .memory = memory};
}

static coll_status_t none_possible(const gpt_plan_layouts_t *plan) {
  const train_plan_candidate_t *nearest = NULL;
  for (int i = 0; i < plan->list.count; i++) {
    const train_plan_candidate_t *candidate = &plan->list.candidates[i];
    if (nearest == NULL || candidate->limit > nearest->limit ||
        (candidate->limit == nearest->limit &&
         candidate->cost.memory.total < nearest->cost.memory.total)) {
      nearest = candidate;
    }
  }
  char flags[TRAIN_PLAN_FLAGS_BYTES];
  return base_fail(COLL_ERROR_INVALID, "no layout of %d ranks is possible; the nearest is %s: %s",
                   plan->machine.machine.ranks, train_plan_flags(&nearest->layout, flags),
                   nearest->reason);
}

coll_status_t gpt_plan_layouts(const gpt_settings_t *settings, const gpt_plan_options_t *options,
                               const train_layout_t *model, train_pool_t *pool, int ranks,
                               json_t **document) {
  gpt_plan_layouts_t plan = {.settings = settings, .options = options, .model = model};
  train_precision_t precision = (train_precision_t)settings->precision;
  gpt_partition_t partition;
  *document = NULL;
  coll_status_t status = read_partition(settings, model, &partition);
  const train_plan_wanted_t wanted = wanted_of(settings, &partition);
  if (status == COLL_OK) {
    status = gpt_plan_machine_init(options, precision, ranks, &plan.machine);
  }
  plan.job = job_of(settings, model, pool, plan.machine.memory);
  if (status == COLL_OK) {
    status = train_plan_search(&plan.job, &plan.machine.machine, &wanted, &plan.list);
  }
  if (status == COLL_OK && plan.list.possible == 0) status = none_possible(&plan);
  if (status == COLL_OK) {
    gpt_plan_print(&plan);
    if (settings->explain) gpt_plan_explain(&plan);
    *document = gpt_plan_json(&plan);
  }
  train_plan_list_free(&plan.list);
  gpt_partition_free(&partition);
  gpt_plan_machine_free(&plan.machine);
  return status;
}
