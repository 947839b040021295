/*
 * PipeDream (Harlap et al. 2018, Narayanan et al. 2019): 1F1B that never empties. Every backward
 * pass is followed by an update, and the stage goes on with newer weights. A micro-batch uses the
 * same version on all stages, forward and backward (weight stashing and vertical sync): the one
 * that stage 0 has when it begins. With p stages in steady state that is p - 1 updates old:
 * w(t+1) = w(t) - lr * gradient at w(t-p+1).
 */
#include "libtrain/schedule/builders.h"

static void append_pass(train_builder_t *builder, train_action_kind_t kind, int i) {
  int version = i - builder->shape->stages + 1;
  train_builder_append(builder, kind, i, 0, 0, version > 0 ? version : 0);
}

void train_build_pipedream(train_builder_t *builder) {
  int ahead = builder->shape->stages - builder->stage;
  if (ahead > builder->count) ahead = builder->count;
  for (int i = 0; i < ahead; i++) append_pass(builder, TRAIN_FORWARD, i);
  for (int i = 0; i < builder->count; i++) {
    append_pass(builder, TRAIN_BACKWARD, i);
    train_builder_update(builder, i);
    if (i + ahead < builder->count) append_pass(builder, TRAIN_FORWARD, i + ahead);
  }
}
