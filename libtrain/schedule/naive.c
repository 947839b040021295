/* The pipeline without overlap: a micro-batch goes forward and backward before the next one begins,
 * so one stage works at a time. The baseline of the others. */
#include "libtrain/schedule/builders.h"

void train_build_naive(train_builder_t *builder) {
  for (int i = 0; i < builder->count; i++) {
    train_builder_pass(builder, TRAIN_FORWARD, i);
    train_builder_pass(builder, TRAIN_BACKWARD, i);
  }
  train_builder_update(builder, builder->count - 1);
}
