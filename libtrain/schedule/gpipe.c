/*
 * GPipe (Huang et al. 2019): all micro-batches forward, then all backward. Holds the activations of
 * all micro-batches. The paper goes backward in reverse order; the order of the forward passes
 * takes as long, and adds up the gradients in the same order as the other kinds do.
 */
#include "libtrain/schedule/builders.h"

void train_build_gpipe(train_builder_t *builder) {
  for (int i = 0; i < builder->count; i++) train_builder_pass(builder, TRAIN_FORWARD, i);
  for (int i = 0; i < builder->count; i++) train_builder_pass(builder, TRAIN_BACKWARD, i);
  train_builder_update(builder, builder->count - 1);
}
