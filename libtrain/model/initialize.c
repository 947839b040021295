/* Initial values, tensor by tensor, of whatever range is asked for. */
#include <math.h>

#include "libtrain/model/layout.h"
#include "libtrain/random.h"

/* The standard deviation of a matrix. */
static double deviation_of(const train_layout_t *layout, const train_tensor_t *tensor, int which) {
  const train_model_config_t *config = &layout->config;
  double deviation = 0.02 * sqrt(768.0 / config->width);
  bool into_stream =
      tensor->unit > 0 && (which == TRAIN_ATTENTION_WEIGHT || which == TRAIN_MLP_WEIGHT);
  return into_stream ? deviation / sqrt(2.0 * config->layers) : deviation;
}

static bool is_norm_weight(const train_tensor_t *tensor, int which) {
  if (tensor->unit == 0) return which == TRAIN_FINAL_WEIGHT;
  return which == TRAIN_NORM1_WEIGHT || which == TRAIN_NORM2_WEIGHT;
}

void train_layout_initialize(const train_layout_t *layout, uint64_t seed, size_t first,
                             size_t count, float *values) {
  for (int i = 0; i < layout->tensor_count; i++) {
    const train_tensor_t *tensor = &layout->tensors[i];
    int which = i < TRAIN_ENDS ? i : (i - TRAIN_ENDS) % TRAIN_BLOCK_TENSORS;
    size_t end = tensor->offset + (size_t)tensor->rows * (size_t)tensor->columns;
    size_t from = tensor->offset > first ? tensor->offset : first;
    size_t to = end < first + count ? end : first + count;
    double deviation = deviation_of(layout, tensor, which);
    float constant = is_norm_weight(tensor, which) ? 1.0f : 0.0f;
    for (size_t at = from; at < to; at++) {
      values[at - first] =
          tensor->rows > 1
              ? (float)(deviation * train_random_normal(seed, TRAIN_RANDOM_WEIGHTS, at))
              : constant;
    }
  }
}
