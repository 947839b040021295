/*
 * PipeDream-2BW (Narayanan et al. 2021, "Memory-Efficient Pipeline-Parallel DNN Training"): 1F1B
 * that never empties and updates after each batch of m micro-batches. A batch uses the weights
 * before the last update, so a stage holds two versions: w(t+1) = w(t) - lr * gradient at w(t-1).
 *
 * Batch u uses version u - 1, so it begins when batch u - 2 has ended. For p stages and m >= p - 1
 * the order of 1F1B sees to that (the paper asks for m >= p). With fewer micro-batches two batches
 * at a time go through the pipeline, and it empties between.
 */
#include "libtrain/schedule/builders.h"

static void append_pass(train_builder_t *builder, train_action_kind_t kind, int i) {
  int version = i / builder->shape->micro_batches - 1;
  train_builder_append(builder, kind, i, 0, 0, version > 0 ? version : 0);
}

/* 1F1B over the micro-batches from `first` to `end`. */
static void append_group(train_builder_t *builder, int first, int end) {
  int ahead = builder->shape->stages - builder->stage;
  if (ahead > end - first) ahead = end - first;
  for (int i = first; i < first + ahead; i++) append_pass(builder, TRAIN_FORWARD, i);
  for (int i = first; i < end; i++) {
    append_pass(builder, TRAIN_BACKWARD, i);
    if ((i + 1) % builder->shape->micro_batches == 0) train_builder_update(builder, i);
    if (i + ahead < end) append_pass(builder, TRAIN_FORWARD, i + ahead);
  }
}

void train_build_pipedream_2bw(train_builder_t *builder) {
  int batch = builder->shape->micro_batches, count = builder->count;
  int group = batch + 1 >= builder->shape->stages ? count : 2 * batch;
  for (int first = 0; first < count; first += group) {
    append_group(builder, first, first + group < count ? first + group : count);
  }
}
