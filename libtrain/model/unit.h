/* Access to the tensors of a unit that a pass has acquired. */
#ifndef LIBTRAIN_MODEL_UNIT_H
#define LIBTRAIN_MODEL_UNIT_H

#include "libtrain/model/param_provider.h"

typedef struct train_unit_view {
  const train_tensor_t *tensors; /* their offsets refer to the flat space */
  size_t offset;                 /* the unit's offset in the flat space */
  train_dtype_t dtype;           /* of the parameters */
  const void *parameters;
  float *gradients; /* NULL: not open; passes then compute no gradients of parameters */
  bool overwrite;   /* gradients must be overwritten */
} train_unit_view_t;

static inline coll_status_t unit_acquire(const train_layout_t *layout, train_dtype_t dtype,
                                         const train_param_provider_t *provider, int index,
                                         int next, train_unit_view_t *unit) {
  train_unit_view_t view = {.tensors = train_layout_tensor(layout, index, 0),
                            .offset = layout->units[index].offset,
                            .dtype = dtype};
  COLL_TRY(provider->acquire(provider->context, index, next, &view.parameters));
  *unit = view;
  return COLL_OK;
}

static inline const void *unit_parameter(const train_unit_view_t *unit, int which) {
  return train_dtype_const_at(unit->dtype, unit->parameters,
                              unit->tensors[which].offset - unit->offset);
}

static inline float *unit_gradient(const train_unit_view_t *unit, int which) {
  return unit->gradients + (unit->tensors[which].offset - unit->offset);
}

#endif
