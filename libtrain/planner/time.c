/*
 * The predicted time of a step: the slowest stage computes products at the machine's rate, and
 * other operators as fast as it reads and writes (elementwise.c), and waits for what its passes
 * need of other ranks; the pipeline's bubble follows from its closed formula (schedules that update
 * without emptying it have none); then come the fill of the pipeline, the part of the data axis's
 * communication that no pass covers, and the update.
 *
 * Exposed are: everything on the tensor and expert axes, whose results the next product needs, and
 * of Ulysses; of the ring of the context axis what takes longer than attention; of the data axis
 * what takes longer than the backward pass of the last micro-batch (ZeRO stages 0 and 1), than all
 * backward passes (2) or all passes (3), and the gathering of updated parameters (1 and 2); of the
 * pipeline axis the fill.
 */
#include "libtrain/planner/metrics.h"
#include "libtrain/planner/parts.h"
#include "libtrain/schedule/formula.h"

/* Shares of a pass: the forward pass, and both parts of the backward pass, are alike. */
static const train_schedule_costs_t equal_costs = {.forward = 1, .input = 1, .weight = 1};

static double larger(double a, double b) {
  return a > b ? a : b;
}

/* ---- computation ---- */

/* Tokens of a step that go through a rank. */
static double tokens_of_rank(const train_plan_job_t *job, const train_plan_layout_t *layout) {
  double all = (double)job->batch * job->model.context;
  return all / (plan_size(layout, TRAIN_MESH_DP) * plan_size(layout, TRAIN_MESH_CP));
}

static double attention_flops(const train_plan_job_t *job) {
  return 6.0 * job->model.width * (job->model.context + 1.0);
}

/* Of a token in a pipeline rank's layers, with recomputation, and in the classifier. */
static double flops_of_part(const train_plan_job_t *job, const train_plan_layout_t *layout,
                            const train_part_t *part) {
  const train_model_config_t *config = &job->model;
  bool last = train_part_classifies(part, config->layers);
  double flops = last ? 6.0 * config->vocabulary * config->width : 0;
  for (int chunk = 0; chunk < part->chunk_count; chunk++) {
    for (int i = 0; i < part->chunks[chunk].layers; i++) {
      int layer = part->chunks[chunk].first_layer + i;
      flops += train_metrics_layer_flops(config, layer, config->context);
    }
  }
  return flops + plan_part_layers(part) *
                     train_metrics_recompute_flops(config, config->context, layout->recompute) /
                     config->layers;
}

static double stream_time(double bytes, double bandwidth) {
  return bandwidth > 0 ? bytes / bandwidth : 0;
}

/* Sets what the slowest pipeline ranks compute in a step and update after it. */
static void set_computation(const train_plan_job_t *job, const train_plan_layout_t *layout,
                            const train_plan_machine_t *machine, train_plan_time_t *time) {
  double tokens = tokens_of_rank(job, layout), tp = plan_size(layout, TRAIN_MESH_TP);
  for (int rank = 0; rank < plan_size(layout, TRAIN_MESH_PP); rank++) {
    const train_part_t part = plan_part(job, layout, rank);
    double products = flops_of_part(job, layout, &part) * tokens / tp / machine->flops;
    double elementwise = stream_time(plan_elementwise_bytes(job, layout, &part) * tokens,
                                     machine->operator_bandwidth);
    double update = stream_time(plan_update_bytes(job, layout, &part), machine->update_bandwidth);
    time->update = larger(time->update, update);
    if (products + elementwise <= time->compute) continue;
    time->compute = products + elementwise;
    time->elementwise = elementwise;
  }
}

/* Of attention's products in a step, which the ring's messages run beside. */
static double attention_time(const train_plan_job_t *job, const train_plan_layout_t *layout,
                             const train_plan_machine_t *machine) {
  double layers = (double)job->model.layers / plan_size(layout, TRAIN_MESH_PP);
  return layers * attention_flops(job) * tokens_of_rank(job, layout) /
         plan_size(layout, TRAIN_MESH_TP) / machine->flops;
}

/* ---- communication ---- */

/* The links that determine the speed of a group: a ring is as fast as its slowest link. */
static train_plan_link_t link_of(const train_plan_traffic_t *traffic, train_mesh_group_t group) {
  return traffic->bytes[group][TRAIN_PLAN_BETWEEN] > 0 ? TRAIN_PLAN_BETWEEN : TRAIN_PLAN_INSIDE;
}

/* Of a group's messages if nothing else ran. */
static double transfer_time(const train_plan_machine_t *machine,
                            const train_plan_traffic_t *traffic, train_mesh_group_t group) {
  train_plan_link_t link = link_of(traffic, group);
  uint64_t bytes = train_plan_bytes(traffic, group);
  if (bytes == 0) return 0;
  return (double)bytes / machine->ranks / machine->bandwidth[link] +
         (double)traffic->messages[group] * machine->latency_s[link];
}

/* The first micro-batch passes all boundaries before the last stage begins, and the last gradient
 * passes them back. */
static double fill_time(const train_plan_job_t *job, const train_plan_layout_t *layout,
                        const train_plan_machine_t *machine, const train_plan_traffic_t *traffic) {
  train_plan_link_t link = link_of(traffic, TRAIN_MESH_PP);
  double element =
      (double)train_dtype_bytes(train_precision_stored(job->precision, TRAIN_KIND_ACTIVATIONS));
  double stream = (double)plan_pass_rows(job, layout) * job->model.width * element;
  if (layout->sequence) stream /= plan_size(layout, TRAIN_MESH_TP);
  return 2.0 * (plan_size(layout, TRAIN_MESH_PP) - 1) *
         (stream / machine->bandwidth[link] + machine->latency_s[link]);
}

/* The token table's gradients are exchanged by two ranks of each pipeline at the same time. */
static double embedding_time(const train_plan_job_t *job, const train_plan_layout_t *layout,
                             const train_plan_machine_t *machine,
                             const train_plan_traffic_t *traffic) {
  train_plan_link_t link = link_of(traffic, TRAIN_MESH_EMBEDDING);
  double table = (double)job->model.vocabulary * job->model.width * sizeof(float);
  if (plan_size(layout, TRAIN_MESH_EMBEDDING) == 1 || job->model.untied) return 0;
  return table / plan_size(layout, TRAIN_MESH_TP) / machine->bandwidth[link];
}

static double exposed_data(const train_plan_job_t *job, const train_plan_layout_t *layout,
                           double transfer, double compute) {
  double gradient = job->bfloat16_gradients ? sizeof(uint16_t) : sizeof(float);
  double weight =
      (double)train_dtype_bytes(train_precision_stored(job->precision, TRAIN_KIND_WEIGHTS));
  double micro = layout->schedule.micro_batches, backward = compute * 2 / 3;
  double reduced = layout->zero == 2 ? gradient * micro : gradient;
  double gathered = transfer * weight / (reduced + weight); /* stages 1 and 2 */
  if (layout->zero == 0) return larger(0, transfer - backward / micro);
  if (layout->zero == 3) return larger(0, transfer - compute);
  double covered = layout->zero == 1 ? backward / micro : backward;
  return gathered + larger(0, transfer - gathered - covered);
}

/* ---- a step ---- */

void plan_time(const train_plan_job_t *job, const train_plan_layout_t *layout,
               const train_plan_machine_t *machine, const train_plan_traffic_t *traffic,
               train_plan_time_t *time) {
  *time = (train_plan_time_t){0};
  set_computation(job, layout, machine, time);
  double compute = time->compute, *exposed = time->exposed, transfer[TRAIN_MESH_GROUPS];
  for (int group = 0; group < TRAIN_MESH_GROUPS; group++) {
    transfer[group] = transfer_time(machine, traffic, (train_mesh_group_t)group);
  }
  exposed[TRAIN_MESH_TP] = transfer[TRAIN_MESH_TP];
  exposed[TRAIN_MESH_EP] = transfer[TRAIN_MESH_EP];
  exposed[TRAIN_MESH_CP] = transfer[TRAIN_MESH_CP];
  if (layout->attention == TRAIN_CONTEXT_RING) {
    double covered = attention_time(job, layout, machine);
    exposed[TRAIN_MESH_CP] = larger(0, transfer[TRAIN_MESH_CP] - covered);
  }
  double passes =
      compute + exposed[TRAIN_MESH_TP] + exposed[TRAIN_MESH_CP] + exposed[TRAIN_MESH_EP];
  bool empties = !train_schedule_is_asynchronous(layout->schedule.kind);
  time->bubble_share = empties ? train_schedule_bubble(&layout->schedule, &equal_costs) : 0;
  time->bubble = passes * time->bubble_share / (1 - time->bubble_share);
  if (empties) exposed[TRAIN_MESH_PP] = fill_time(job, layout, machine, traffic);
  exposed[TRAIN_MESH_EMBEDDING] = embedding_time(job, layout, machine, traffic);
  exposed[TRAIN_MESH_DATA] = exposed_data(job, layout, transfer[TRAIN_MESH_DATA], compute);
  exposed[TRAIN_MESH_EXPERT_DATA] =
      exposed_data(job, layout, transfer[TRAIN_MESH_EXPERT_DATA], compute);
  time->step = compute + time->bubble + time->update;
  for (int group = 0; group < TRAIN_MESH_GROUPS; group++) time->step += exposed[group];
  double tokens = (double)job->batch * job->model.context;
  time->utilization =
      train_metrics_mfu(train_metrics_flops_per_token(&job->model, job->model.context),
                        tokens / time->step, machine->flops * machine->ranks);
}
