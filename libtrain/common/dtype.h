/*
 * The element types of arrays, and their conversion. bfloat16 is the upper half of a float32;
 * float16 is IEEE 754 binary16. Both are stored as uint16_t.
 */
#ifndef LIBTRAIN_COMMON_DTYPE_H
#define LIBTRAIN_COMMON_DTYPE_H

#include <stddef.h>
#include <stdint.h>

typedef enum train_dtype {
  TRAIN_FLOAT32,
  TRAIN_BFLOAT16,
  TRAIN_FLOAT16,
  TRAIN_DTYPES /* their number */
} train_dtype_t;

/* Bytes of an element. */
static inline size_t train_dtype_bytes(train_dtype_t dtype) {
  return dtype == TRAIN_FLOAT32 ? sizeof(float) : sizeof(uint16_t);
}

/* PyTorch's name: "float32", "bfloat16", "float16". */
const char *train_dtype_name(train_dtype_t dtype);

/* The address of element `index` of an array. */
static inline void *train_dtype_at(train_dtype_t dtype, void *array, size_t index) {
  return (char *)array + index * train_dtype_bytes(dtype);
}
static inline const void *train_dtype_const_at(train_dtype_t dtype, const void *array,
                                               size_t index) {
  return (const char *)array + index * train_dtype_bytes(dtype);
}

/* narrow[i] = wide[i], rounded to nearest, ties to even; NaN stays NaN; what is too large for
 * float16 becomes infinite. narrow may overlap wide if it does not start after it. */
void train_dtype_narrow(train_dtype_t dtype, const float *wide, size_t count, void *narrow);

/* wide[i] = narrow[i], exactly. wide may overlap narrow if it does not start before it. */
void train_dtype_widen(train_dtype_t dtype, const void *narrow, size_t count, float *wide);

/* array[first .. first + count) as float32: in the array itself if it is float32, otherwise
 * converted into buffer[count]. */
static inline const float *train_dtype_read(train_dtype_t dtype, const void *array, size_t first,
                                            size_t count, float *buffer) {
  if (dtype == TRAIN_FLOAT32) return (const float *)array + first;
  train_dtype_widen(dtype, train_dtype_const_at(dtype, array, first), count, buffer);
  return buffer;
}

#endif
