/* Norms are computed in double precision, so that the comparison itself adds no error. */
#include "op_parts.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "libtrain/norms.h"

part_t part_of(int total, int parts, int index) {
  int first = total * index / parts;
  return (part_t){first, total * (index + 1) / parts - first};
}

void *parts_random(train_dtype_t dtype, uint64_t seed, double deviation, size_t count) {
  float *values = op_random(seed, deviation, count + 1);
  train_dtype_narrow(dtype, values, count, values);
  return values;
}

void *parts_cut(train_dtype_t dtype, const void *array, int rows, int width, part_t columns) {
  size_t count = (size_t)columns.count, bytes = count * train_dtype_bytes(dtype);
  void *cut = malloc((size_t)rows * bytes + 1);
  for (size_t row = 0; row < (size_t)rows; row++) {
    size_t at = row * (size_t)width + (size_t)columns.first;
    memcpy(train_dtype_at(dtype, cut, row * count), train_dtype_const_at(dtype, array, at), bytes);
  }
  return cut;
}

void parts_join(train_dtype_t dtype, const void *columns, int rows, int width, part_t part,
                void *array) {
  size_t count = (size_t)part.count, bytes = count * train_dtype_bytes(dtype);
  for (size_t row = 0; row < (size_t)rows; row++) {
    size_t at = row * (size_t)width + (size_t)part.first;
    memcpy(train_dtype_at(dtype, array, at), train_dtype_const_at(dtype, columns, row * count),
           bytes);
  }
}

void parts_add(train_dtype_t dtype, const void *values, size_t count, float *sum) {
  float *wide = malloc((count + 1) * sizeof *wide);
  train_dtype_widen(dtype, values, count, wide);
  for (size_t i = 0; i < count; i++) sum[i] += wide[i];
  free(wide);
}

static double unit_of(train_dtype_t dtype) {
  if (dtype == TRAIN_FLOAT32) return 1e-6;
  return dtype == TRAIN_BFLOAT16 ? 0x1p-8 : 0x1p-11;
}

void parts_check_floats(const char *what, train_dtype_t dtype, double units, const float *got,
                        const float *expected, size_t count) {
  double error = norm_of_difference(got, expected, count);
  double bound = units * unit_of(dtype) * norm_of(expected, count);
  cr_assert(error <= bound, "%s, %s: the norm of the difference is %g, allowed are %g",
            train_dtype_name(dtype), what, error, bound); /* NaN fails */
}

void parts_check(const char *what, train_dtype_t dtype, double units, const void *got,
                 const void *expected, size_t count) {
  float *wide = malloc((2 * count + 1) * sizeof *wide);
  train_dtype_widen(dtype, got, count, wide);
  train_dtype_widen(dtype, expected, count, wide + count);
  parts_check_floats(what, dtype, units, wide, wide + count, count);
  free(wide);
}
