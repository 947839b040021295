/* Initializes the tensors, or the parts of tensors, within the requested range. */
#include <math.h>

#include "libtrain/common/random.h"
#include "libtrain/model/layout.h"

#define TASK_ELEMENTS ((size_t)1 << 16)

/* The place of a tensor among those of its unit. */
static int which_of(const train_layout_t *layout, const train_tensor_t *tensor) {
  return (int)(tensor - train_layout_tensor(layout, tensor->unit, 0));
}

static bool of_experts(const train_layout_t *layout, const train_tensor_t *tensor) {
  return tensor->unit >= layout->block_units;
}

/* Standard deviation of a matrix's elements. */
static double deviation_of(const train_layout_t *layout, const train_tensor_t *tensor) {
  const train_model_config_t *config = &layout->config;
  double deviation = 0.02 * sqrt(768.0 / config->width);
  int which = which_of(layout, tensor);
  bool into_stream =
      of_experts(layout, tensor)
          ? which == TRAIN_EXPERT_OUTPUT_WEIGHT
          : tensor->unit > 0 && (which == TRAIN_ATTENTION_WEIGHT || which == TRAIN_MLP_WEIGHT);
  return into_stream ? deviation / sqrt(2.0 * config->layers) : deviation;
}

static bool is_norm_weight(const train_layout_t *layout, const train_tensor_t *tensor) {
  int which = which_of(layout, tensor);
  if (tensor->unit == 0) return which == TRAIN_FINAL_WEIGHT;
  return !of_experts(layout, tensor) &&
         (which == TRAIN_NORM1_WEIGHT || which == TRAIN_NORM2_WEIGHT);
}

typedef struct range {
  const train_layout_t *layout;
  uint64_t seed;
  size_t first, count;
  float *values; /* [count] */
} range_t;

/* Initializes the part of the tensor between `begin` and `end` of the flat space. */
static void fill(const range_t *range, int index, size_t begin, size_t end) {
  const train_tensor_t *tensor = &range->layout->tensors[index];
  size_t tensor_end = tensor->offset + (size_t)tensor->rows * (size_t)tensor->columns;
  size_t from = tensor->offset > begin ? tensor->offset : begin;
  size_t to = tensor_end < end ? tensor_end : end;
  if (from >= to) return;
  float *values = range->values + (from - range->first);
  if (tensor->decays) {
    train_random_normals(range->seed, TRAIN_RANDOM_WEIGHTS, from, to - from,
                         deviation_of(range->layout, tensor), values);
    return;
  }
  float constant = is_norm_weight(range->layout, tensor) ? 1.0f : 0.0f;
  for (size_t i = 0; i < to - from; i++) values[i] = constant;
}

static void fill_task(void *context, int task, int thread) {
  const range_t *range = context;
  size_t begin = range->first + (size_t)task * TASK_ELEMENTS, end = begin + TASK_ELEMENTS;
  size_t last = range->first + range->count;
  (void)thread;
  for (int i = 0; i < range->layout->tensor_count; i++) {
    fill(range, i, begin, end < last ? end : last);
  }
}

void train_layout_initialize(train_pool_t *pool, const train_layout_t *layout, uint64_t seed,
                             size_t first, size_t count, float *values) {
  range_t range = {
      .layout = layout, .seed = seed, .first = first, .count = count, .values = values};
  train_pool_run(pool, (int)((count + TASK_ELEMENTS - 1) / TASK_ELEMENTS), fill_task, &range);
}
