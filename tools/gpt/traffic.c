/* Axes of one rank, which send nothing, are left out. */
#include "tools/gpt/traffic.h"

#include <stdio.h>

static bool is_used(const train_traffic_t *traffic) {
  return traffic->bytes_sent > 0;
}

static double waited_ms(const train_traffic_t *traffic) {
  return (double)traffic->waited_ns * 1e-6;
}

void gpt_traffic_log(const train_step_t *step, json_t *line) {
  for (int axis = 0; axis < TRAIN_TRAFFIC_AXES && line != NULL; axis++) {
    const train_traffic_t *traffic = &step->traffic[axis];
    char name[64];
    if (!is_used(traffic)) continue;
    snprintf(name, sizeof name, "%s_bytes_sent", train_traffic_names[axis]);
    json_object_set_new(line, name, json_integer((json_int_t)traffic->bytes_sent));
    snprintf(name, sizeof name, "%s_waited_ms", train_traffic_names[axis]);
    json_object_set_new(line, name, json_real(waited_ms(traffic)));
  }
  if (line == NULL || !is_used(&step->traffic[TRAIN_TRAFFIC_TENSOR])) return;
  json_object_set_new(line, "tensor_overlap", json_integer(step->tensor_overlap));
}

size_t gpt_traffic_scalars(const train_step_t *step,
                           train_scalar_t scalars[GPT_TRAFFIC_SCALARS_MAX]) {
  static const char *const tags[TRAIN_TRAFFIC_AXES][2] = {
      [TRAIN_TRAFFIC_DATA] = {"traffic/data_bytes", "time/data_waited_ms"},
      [TRAIN_TRAFFIC_TENSOR] = {"traffic/tensor_bytes", "time/tensor_waited_ms"},
      [TRAIN_TRAFFIC_CONTEXT] = {"traffic/context_bytes", "time/context_waited_ms"},
      [TRAIN_TRAFFIC_PIPELINE] = {"traffic/pipeline_bytes", "time/pipeline_waited_ms"},
      [TRAIN_TRAFFIC_EMBEDDING] = {"traffic/embedding_bytes", "time/embedding_waited_ms"},
      [TRAIN_TRAFFIC_EXPERTS] = {"traffic/experts_bytes", "time/experts_waited_ms"},
  };
  size_t count = 0;
  for (int axis = 0; axis < TRAIN_TRAFFIC_AXES; axis++) {
    const train_traffic_t *traffic = &step->traffic[axis];
    if (!is_used(traffic)) continue;
    scalars[count++] = (train_scalar_t){tags[axis][0], (double)traffic->bytes_sent};
    scalars[count++] = (train_scalar_t){tags[axis][1], waited_ms(traffic)};
  }
  return count;
}

/* The traffic of the data axis alone is said already: it is all. */
static bool is_all_data(const train_step_t *step) {
  return step->bytes_sent == step->traffic[TRAIN_TRAFFIC_DATA].bytes_sent;
}

void gpt_traffic_print(const train_step_t *step) {
  if (is_all_data(step)) return;
  printf("Rank 0, last step:\n  %-9s  %9s  %9s\n", "axis", "sent MB", "waited ms");
  for (int axis = 0; axis < TRAIN_TRAFFIC_AXES; axis++) {
    const train_traffic_t *traffic = &step->traffic[axis];
    if (!is_used(traffic)) continue;
    printf("  %-9s  %9.3f  %9.1f\n", train_traffic_names[axis], (double)traffic->bytes_sent * 1e-6,
           waited_ms(traffic));
  }
}
