/* Reading in other types, and a flat space over three arrays in memory. */
#include "libtrain/files/flat.h"

#include <string.h>

coll_status_t train_flat_read_as(const train_flat_t *from, train_array_t array, size_t first,
                                 size_t count, train_dtype_t dtype, void *values, float *buffer) {
  if (dtype == TRAIN_FLOAT32) return from->read(from->context, array, first, count, values);
  for (size_t at = 0; at < count; at += TRAIN_CHUNK) {
    size_t here = count - at < TRAIN_CHUNK ? count - at : TRAIN_CHUNK;
    COLL_TRY(from->read(from->context, array, first + at, here, buffer));
    train_dtype_narrow(dtype, buffer, here, train_dtype_at(dtype, values, at));
  }
  return COLL_OK;
}

/* Missing arrays read as zeros. */
static coll_status_t read_arrays(void *context, train_array_t array, size_t first, size_t count,
                                 float *values) {
  const train_flat_arrays_t *arrays = context;
  const float *from = arrays->values[array];
  if (from == NULL) {
    memset(values, 0, count * sizeof *values);
  } else {
    memcpy(values, from + first, count * sizeof *values);
  }
  return COLL_OK;
}

train_flat_t train_flat_of(train_flat_arrays_t *arrays) {
  return (train_flat_t){.context = arrays, .read = read_arrays};
}
