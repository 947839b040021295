/*
 * TeraPipe (Li et al. 2021): the sequences of a micro-batch are cut into slices of tokens, and a
 * stage passes on a slice while it computes the next one. With a causal mask a slice needs only the
 * slices before it, and backward only those after it, so backward goes from the last slice to the
 * first. All micro-batches forward, then all backward, as in GPipe. Slices of equal time have
 * unequal lengths: slices.h.
 */
#include "libtrain/schedule/builders.h"

void train_build_terapipe(train_builder_t *builder) {
  int slices = builder->shape->slices, version = builder->version;
  for (int i = 0; i < builder->count; i++) {
    for (int slice = 0; slice < slices; slice++) {
      train_builder_append(builder, TRAIN_FORWARD, i, 0, slice, version);
    }
  }
  for (int i = 0; i < builder->count; i++) {
    for (int slice = slices - 1; slice >= 0; slice--) {
      train_builder_append(builder, TRAIN_BACKWARD, i, 0, slice, version);
    }
  }
  train_builder_update(builder, builder->count - 1);
}
