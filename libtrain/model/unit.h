/* A unit while a pass holds it: its tensors among its parameters and its gradients. */
#ifndef LIBTRAIN_MODEL_UNIT_H
#define LIBTRAIN_MODEL_UNIT_H

#include "libtrain/model/source.h"

typedef struct train_held_unit {
  const train_tensor_t *tensors; /* their offsets are those in the flat space ... */
  size_t offset;                 /* ... where the unit has this one */
  const float *parameters;
  float *gradients;
  bool overwrite; /* gradients are to be overwritten */
} train_held_unit_t;

static inline coll_status_t unit_acquire(const train_layout_t *layout, const train_source_t *source,
                                         int index, int next, train_held_unit_t *unit) {
  train_held_unit_t held = {.tensors = train_layout_tensor(layout, index, 0),
                            .offset = layout->units[index].offset};
  COLL_TRY(source->acquire(source->context, index, next, &held.parameters));
  *unit = held;
  return COLL_OK;
}

static inline const float *unit_parameter(const train_held_unit_t *unit, int which) {
  return unit->parameters + (unit->tensors[which].offset - unit->offset);
}

static inline float *unit_gradient(const train_held_unit_t *unit, int which) {
  return unit->gradients + (unit->tensors[which].offset - unit->offset);
}

#endif
