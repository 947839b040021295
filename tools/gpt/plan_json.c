/* Layouts as JSON: bytes, seconds and shares. */
#include "tools/gpt/plan.h"

static json_t *sizes_of(const train_plan_layout_t *layout) {
  json_t *object = json_object();
  for (int axis = 0; axis < TRAIN_MESH_AXES; axis++) {
    json_object_set_new(object, train_mesh_group_name((train_mesh_group_t)axis),
                        json_integer(layout->mesh.size[axis]));
  }
  json_object_set_new(object, "ep", json_integer(layout->mesh.size[TRAIN_MESH_EP]));
  return object;
}

static json_t *memory_of(const train_plan_memory_t *m) {
  return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:i}", "parameter_bytes",
                   (json_int_t)m->parameters, "weight_bytes", (json_int_t)m->weights,
                   "gradient_bytes", (json_int_t)m->gradients, "moment_bytes",
                   (json_int_t)m->moments, "workspace_bytes", (json_int_t)m->workspaces,
                   "activation_bytes", (json_int_t)m->activations, "buffer_bytes",
                   (json_int_t)m->buffers, "total_bytes", (json_int_t)m->total, "stage", m->stage);
}

/* Of all ranks together, by group. */
static json_t *traffic_of(const train_plan_traffic_t *traffic) {
  json_t *object = json_object();
  for (int group = 0; group < TRAIN_MESH_GROUPS; group++) {
    const uint64_t *bytes = traffic->bytes[group];
    if (train_plan_bytes(traffic, (train_mesh_group_t)group) == 0) continue;
    json_object_set_new(object, train_mesh_group_name((train_mesh_group_t)group),
                        json_pack("{s:I, s:I}", "inside", (json_int_t)bytes[TRAIN_PLAN_INSIDE],
                                  "between", (json_int_t)bytes[TRAIN_PLAN_BETWEEN]));
  }
  return object;
}

static json_t *time_of(const train_plan_time_t *time) {
  json_t *exposed = json_object();
  for (int group = 0; group < TRAIN_MESH_GROUPS; group++) {
    if (time->exposed[group] <= 0) continue;
    json_object_set_new(exposed, train_mesh_group_name((train_mesh_group_t)group),
                        json_real(time->exposed[group]));
  }
  return json_pack("{s:f, s:f, s:f, s:f, s:f, s:o, s:f, s:f}", "step_s", time->step, "compute_s",
                   time->compute, "elementwise_s", time->elementwise, "update_s", time->update,
                   "bubble_s", time->bubble, "exposed_s", exposed, "bubble_share",
                   time->bubble_share, "mfu", time->utilization);
}

static json_t *possible_of(const train_plan_candidate_t *candidate) {
  char flags[TRAIN_PLAN_FLAGS_BYTES];
  return json_pack(
      "{s:s, s:o, s:o, s:o, s:o}", "flags", train_plan_flags(&candidate->layout, flags), "sizes",
      sizes_of(&candidate->layout), "memory", memory_of(&candidate->cost.memory), "sent_bytes",
      traffic_of(&candidate->cost.traffic), "time", time_of(&candidate->cost.time));
}

json_t *gpt_plan_json(const gpt_plan_layouts_t *plan) {
  json_t *possible = json_array(), *impossible = json_array();
  for (int i = 0; i < plan->list.count; i++) {
    const train_plan_candidate_t *candidate = &plan->list.candidates[i];
    if (i < plan->list.possible) {
      json_array_append_new(possible, possible_of(candidate));
    } else {
      json_array_append_new(impossible,
                            json_pack("{s:o, s:s}", "sizes", sizes_of(&candidate->layout), "reason",
                                      candidate->reason));
    }
  }
  const train_plan_machine_t *machine = &plan->machine.machine;
  return json_pack("{s:O, s:I, s:i, s:f, s:f, s:f, s:[f, f], s:o, s:o}", "options",
                   plan->settings->resolved, "parameters", (json_int_t)plan->model->parameter_count,
                   "ranks", machine->ranks, "flops_per_s", machine->flops, "operator_bytes_per_s",
                   machine->operator_bandwidth, "update_bytes_per_s", machine->update_bandwidth,
                   "bandwidth", machine->bandwidth[TRAIN_PLAN_INSIDE],
                   machine->bandwidth[TRAIN_PLAN_BETWEEN], "layouts", possible, "impossible",
                   impossible);
}
