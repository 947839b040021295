/* A flat space over three arrays in memory; missing arrays read as zeros. */
#include "libtrain/files/flat.h"

#include <string.h>

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
