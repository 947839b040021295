/*
 * ZB-H1 (Qi et al. 2023, "Zero Bubble Pipeline Parallelism"): 1F1B with backward split in two. The
 * gradient of the input goes to the stage before at once. The gradient of the weights of stage i
 * lags by i micro-batches, so that later stages answer sooner, and fills the end of the pipeline.
 * No stage holds more activations than the first one of 1F1B.
 */
#include "libtrain/schedule/builders.h"

void train_build_zb_h1(train_builder_t *builder) {
  int lag = builder->stage, ahead = builder->shape->stages - builder->stage;
  if (ahead > builder->count) ahead = builder->count;
  if (lag > builder->count) lag = builder->count;
  for (int i = 0; i < ahead; i++) train_builder_pass(builder, TRAIN_FORWARD, i);
  for (int i = 0; i < builder->count; i++) {
    train_builder_pass(builder, TRAIN_BACKWARD_INPUT, i);
    if (i >= lag) train_builder_pass(builder, TRAIN_BACKWARD_WEIGHT, i - lag);
    if (i + ahead < builder->count) train_builder_pass(builder, TRAIN_FORWARD, i + ahead);
  }
  for (int i = builder->count - lag; i < builder->count; i++) {
    train_builder_pass(builder, TRAIN_BACKWARD_WEIGHT, i);
  }
  train_builder_update(builder, builder->count - 1);
}
