/* The tables of the fastest layouts: time, memory and bytes sent. */
#include <stdio.h>

#include "libtrain/planner/metrics.h"
#include "tools/gpt/plan.h"

static int rows_of(const gpt_plan_layouts_t *plan) {
  int rows = (int)plan->options->rows;
  return rows < plan->list.possible ? rows : plan->list.possible;
}

static void print_header(const gpt_plan_layouts_t *plan) {
  const train_model_config_t *config = &plan->job.model;
  const train_plan_machine_t *machine = &plan->machine.machine;
  printf("%.2f M parameters (%d layers, %d heads, width %d, context %d, %d tokens), batch %d, %s\n",
         (double)plan->model->parameter_count * 1e-6, config->layers, config->heads, config->width,
         config->context, config->vocabulary, plan->job.batch,
         train_policy_of(plan->job.precision)->name);
  printf("%d ranks on %d host%s: %.4g GB/s inside", machine->ranks, plan->machine.hosts,
         plan->machine.hosts > 1 ? "s" : "", machine->bandwidth[TRAIN_PLAN_INSIDE] * 1e-9);
  if (plan->machine.hosts > 1) {
    printf(" and %.4g GB/s between hosts", machine->bandwidth[TRAIN_PLAN_BETWEEN] * 1e-9);
  }
  printf(", %.4g TFLOP/s a rank (%s), %.4g GB/s in other operators", machine->flops * 1e-12,
         plan->machine.source, machine->operator_bandwidth * 1e-9);
  if (plan->job.memory > 0) printf(", %.4g GB of memory", (double)plan->job.memory * 1e-9);
  printf("\n%d of %d divisions of the ranks are possible; the fastest of each, of %lld layouts:\n",
         plan->list.possible, plan->list.count, (long long)plan->list.layouts);
}

static double exposed_of(const train_plan_time_t *time) {
  double sum = 0;
  for (int group = 0; group < TRAIN_MESH_GROUPS; group++) sum += time->exposed[group];
  return sum;
}

static void print_times(const gpt_plan_layouts_t *plan) {
  printf("\n%3s %10s %10s %10s %10s %10s %8s %6s %9s  %s\n", "", "step ms", "compute", "bubble",
         "exposed", "update", "bubble %", "MFU %", "memory GB", "options of gpt train");
  for (int i = 0; i < rows_of(plan); i++) {
    const train_plan_candidate_t *candidate = &plan->list.candidates[i];
    const train_plan_time_t *time = &candidate->cost.time;
    char flags[TRAIN_PLAN_FLAGS_BYTES];
    printf("%3d %10.2f %10.2f %10.2f %10.2f %10.2f %8.1f %6.1f %9.2f  %s\n", i + 1,
           time->step * 1e3, time->compute * 1e3, time->bubble * 1e3, exposed_of(time) * 1e3,
           time->update * 1e3, 100 * time->bubble_share, 100 * time->utilization,
           (double)candidate->cost.memory.total * 1e-9,
           train_plan_flags(&candidate->layout, flags));
  }
  printf(
      "exposed: communication that no computation covers. MFU: %s\nof the FLOP/s of all ranks.\n",
      train_metrics_formula(&plan->job.model));
}

static void print_memory(const gpt_plan_layouts_t *plan) {
  printf("\nMB of the rank that needs most\n%3s %10s %10s %10s %10s %10s %11s %8s %10s %6s\n", "",
         "parameters", "weights", "gradients", "moments", "workspaces", "activations", "buffers",
         "total", "stage");
  for (int i = 0; i < rows_of(plan); i++) {
    const train_plan_memory_t *m = &plan->list.candidates[i].cost.memory;
    printf("%3d %10.1f %10.1f %10.1f %10.1f %10.1f %11.1f %8.1f %10.1f %6d\n", i + 1,
           (double)m->parameters * 1e-6, (double)m->weights * 1e-6, (double)m->gradients * 1e-6,
           (double)m->moments * 1e-6, (double)m->workspaces * 1e-6, (double)m->activations * 1e-6,
           (double)m->buffers * 1e-6, (double)m->total * 1e-6, m->stage);
  }
}

static bool is_used(const gpt_plan_layouts_t *plan, train_mesh_group_t group) {
  for (int i = 0; i < rows_of(plan); i++) {
    if (train_plan_bytes(&plan->list.candidates[i].cost.traffic, group) > 0) return true;
  }
  return false;
}

static void print_traffic(const gpt_plan_layouts_t *plan) {
  double ranks = plan->machine.machine.ranks;
  printf("\nMB that a rank sends per step, on average, inside a host + between hosts\n%3s", "");
  for (int group = 0; group < TRAIN_MESH_GROUPS; group++) {
    if (!is_used(plan, (train_mesh_group_t)group)) continue;
    printf(" %19s", train_mesh_group_name((train_mesh_group_t)group));
  }
  printf("\n");
  for (int i = 0; i < rows_of(plan); i++) {
    printf("%3d", i + 1);
    for (int group = 0; group < TRAIN_MESH_GROUPS; group++) {
      const uint64_t *bytes = plan->list.candidates[i].cost.traffic.bytes[group];
      if (!is_used(plan, (train_mesh_group_t)group)) continue;
      printf(" %9.1f%10.1f", (double)bytes[TRAIN_PLAN_INSIDE] / ranks * 1e-6,
             (double)bytes[TRAIN_PLAN_BETWEEN] / ranks * 1e-6);
    }
    printf("\n");
  }
}

static void print_kind(const train_model_config_t *config) {
  if (config->untied) printf(" --untied");
  if (config->experts == 0) return;
  printf(" --experts %d --top-k %d --moe-every %d%s", config->experts, config->top_k,
         config->moe_every, config->shared_expert ? " --shared-expert" : "");
}

/* The command that runs the first layout. */
static void print_command(const gpt_plan_layouts_t *plan) {
  const gpt_settings_t *settings = plan->settings;
  const train_model_config_t *config = &plan->job.model;
  char flags[TRAIN_PLAN_FLAGS_BYTES];
  printf("\ncollrun -n %d gpt train", plan->machine.machine.ranks);
  if (settings->preset != NULL) printf(" --preset %s", settings->preset);
  if (settings->preset == NULL) {
    printf(" --layers %d --heads %d --width %d", config->layers, config->heads, config->width);
  }
  print_kind(config);
  printf(" --context %d --batch %d --precision %s %s\n", config->context, plan->job.batch,
         train_policy_of(plan->job.precision)->name,
         train_plan_flags(&plan->list.candidates[0].layout, flags));
}

void gpt_plan_print(const gpt_plan_layouts_t *plan) {
  print_header(plan);
  print_times(plan);
  print_memory(plan);
  print_traffic(plan);
  print_command(plan);
}
