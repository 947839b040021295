/* The formulas are those of libtrain/planner/metrics.h and libtrain/schedule/formula.h. */
#include "tools/gpt/metrics.h"

#include <stdio.h>

#include "libtrain/planner/metrics.h"
#include "libtrain/schedule/formula.h"

void gpt_metrics_add(gpt_metrics_t *metrics, const train_step_t *step) {
  metrics->ms += step->ms;
  metrics->exposed_ms += step->exposed_comm_ms;
  metrics->bubble += step->bubble;
  metrics->steps++;
}

double gpt_metrics_bubble(const gpt_metrics_t *metrics) {
  return metrics->steps > 0 ? metrics->bubble / metrics->steps : 0;
}

void gpt_metrics_log(double mfu, double bubble, int stages, json_t *line) {
  if (line == NULL) return;
  json_object_set_new(line, "mfu", json_real(mfu));
  if (stages > 1) json_object_set_new(line, "bubble", json_real(bubble));
}

size_t gpt_metrics_scalars(double mfu, double bubble, int stages, train_scalar_t scalars[2]) {
  scalars[0] = (train_scalar_t){"speed/mfu", mfu};
  scalars[1] = (train_scalar_t){"time/bubble", bubble};
  return stages > 1 ? 2 : 1;
}

static void print_bubble(double bubble, const gpt_settings_t *settings, int stages, int slices) {
  const train_schedule_shape_t shape = {.kind = (train_schedule_kind_t)settings->schedule,
                                        .stages = stages,
                                        .micro_batches = (int)settings->accumulate,
                                        .steps = 1,
                                        .chunks = (int)settings->virtual_stages,
                                        .slices = slices};
  const train_schedule_costs_t costs = {.forward = 1, .input = 1, .weight = 1};
  printf("  %-9s  %6.1f %%  of the passes' time; for equal stages %s has %s = %.1f %%\n", "bubble",
         bubble * 100, train_schedule_names[shape.kind], train_schedule_bubble_text(shape.kind),
         train_schedule_bubble(&shape, &costs) * 100);
}

void gpt_metrics_print(const gpt_metrics_t *metrics, const gpt_settings_t *settings,
                       const gpt_speed_t *speed, int stages, int slices, double tokens_per_s) {
  double exposed = train_metrics_exposed(metrics->exposed_ms, metrics->ms);
  printf("Efficiency:\n  %-9s  %6.1f %%  of the GEMM rate, with %s\n", "MFU",
         gpt_speed_mfu(speed, tokens_per_s) * 100, speed->formula);
  if (speed->gemm_per_s > speed->measured_per_s) {
    printf(
        "  %-9s  %6.0f GFLOP/s, as the fastest step shows; the machine was busy while %.0f were "
        "measured\n",
        "GEMM", speed->gemm_per_s * 1e-9, speed->measured_per_s * 1e-9);
  }
  if (exposed >= 0.0005) {
    printf("  %-9s  %6.1f %%  of the steps' time, in which rank 0 waits for communication\n",
           "exposed", exposed * 100);
  }
  if (stages > 1) print_bubble(gpt_metrics_bubble(metrics), settings, stages, slices);
}
