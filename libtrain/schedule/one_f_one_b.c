/*
 * 1F1B with a flush (PipeDream-Flush; Narayanan et al. 2021): a stage runs forward as many
 * micro-batches as there are stages from it to the end, then one backward and one forward in turn.
 * As fast as GPipe, but stage i of p holds the activations of at most p - i micro-batches.
 */
#include "libtrain/schedule/builders.h"

void train_build_1f1b(train_builder_t *builder) {
  int ahead = builder->shape->stages - builder->stage;
  if (ahead > builder->count) ahead = builder->count;
  for (int i = 0; i < ahead; i++) train_builder_pass(builder, TRAIN_FORWARD, i);
  for (int i = 0; i < builder->count; i++) {
    train_builder_pass(builder, TRAIN_BACKWARD, i);
    if (i + ahead < builder->count) train_builder_pass(builder, TRAIN_FORWARD, i + ahead);
  }
  train_builder_update(builder, builder->count - 1);
}
