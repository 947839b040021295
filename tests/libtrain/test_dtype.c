/* Compares the conversions with their definition, rounding to the nearest neighbor, also in place.
 */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "libtrain/common/dtype.h"
#include "reference.h"

static float widened(train_dtype_t dtype, uint16_t narrow) {
  float wide;
  train_dtype_widen(dtype, &narrow, 1, &wide);
  return wide;
}

static uint16_t narrowed(train_dtype_t dtype, float wide) {
  uint16_t narrow;
  train_dtype_narrow(dtype, &wide, 1, &narrow);
  return narrow;
}

/* Compares the result with its neighbors. */
static void check_nearest(train_dtype_t dtype, float wide) {
  uint16_t got = narrowed(dtype, wide);
  double error = fabs((double)widened(dtype, got) - (double)wide);
  for (int step = -1; step <= 1; step += 2) {
    uint16_t other = (uint16_t)(got + step);
    double other_error = fabs((double)widened(dtype, other) - (double)wide);
    if (isinf((double)widened(dtype, other)) || isnan(other_error)) continue;
    cr_assert(error < other_error || (error == other_error && (got & 1u) == 0),
              "%a became %a, %a is nearer", (double)wide, (double)widened(dtype, got),
              (double)widened(dtype, other));
  }
}

static void rounds_to_nearest(train_dtype_t dtype) {
  float values[4096];
  random_fill(5, 3.0, 4096, values);
  for (int i = 0; i < 4096; i++) check_nearest(dtype, values[i]);
  for (int i = 0; i < 4096; i++) check_nearest(dtype, values[i] * 1e-39f);
  const float ties[] = {0x1.01p0f, 0x1.03p0f, 0x1.010002p0f, 0x1.00fffep0f, -0x1.05p-20f, 0.0f};
  for (size_t i = 0; i < sizeof ties / sizeof ties[0]; i++) check_nearest(dtype, ties[i]);
}

static void special_values_are_preserved(train_dtype_t dtype) {
  cr_assert(isnan((double)widened(dtype, narrowed(dtype, NAN))));
  uint32_t bits = 0x7f800001u; /* a NaN whose upper fraction bits are zero */
  float quiet;
  memcpy(&quiet, &bits, sizeof quiet);
  cr_assert(isnan((double)widened(dtype, narrowed(dtype, quiet))));
  cr_assert_eq(widened(dtype, narrowed(dtype, INFINITY)), INFINITY);
  cr_assert_eq(widened(dtype, narrowed(dtype, -INFINITY)), -INFINITY);
  cr_assert(signbit(widened(dtype, narrowed(dtype, -0.0f))));
}

static void every_value_survives_a_round_trip(train_dtype_t dtype) {
  for (uint32_t i = 0; i < 0x10000; i++) {
    if ((i & 0x7fffu) > (dtype == TRAIN_BFLOAT16 ? 0x7f80u : 0x7c00u)) continue;
    cr_assert_eq(narrowed(dtype, widened(dtype, (uint16_t)i)), i);
  }
}

static void works_in_place(train_dtype_t dtype) {
  for (size_t count = 0; count < 1100; count += 1 + count / 7) {
    float *wide = malloc((count + 1) * sizeof *wide), *buffer = malloc((count + 1) * sizeof *wide);
    uint16_t *narrow = malloc((count + 1) * sizeof *narrow);
    random_fill(count, 1.0, count, wide);
    memcpy(buffer, wide, count * sizeof *wide);
    train_dtype_narrow(dtype, wide, count, narrow);
    train_dtype_narrow(dtype, buffer, count, (uint16_t *)buffer);
    cr_assert_arr_eq(buffer, narrow, count * sizeof *narrow);
    train_dtype_widen(dtype, narrow, count, wide);
    train_dtype_widen(dtype, (const uint16_t *)buffer, count, buffer);
    cr_assert_arr_eq(buffer, wide, count * sizeof *wide);
    free(wide);
    free(buffer);
    free(narrow);
  }
}

Test(dtype, rounds_to_nearest) {
  rounds_to_nearest(TRAIN_BFLOAT16);
  rounds_to_nearest(TRAIN_FLOAT16);
}

Test(dtype, special_values_are_preserved) {
  special_values_are_preserved(TRAIN_BFLOAT16);
  special_values_are_preserved(TRAIN_FLOAT16);
}

Test(dtype, every_value_survives_a_round_trip) {
  every_value_survives_a_round_trip(TRAIN_BFLOAT16);
  every_value_survives_a_round_trip(TRAIN_FLOAT16);
}

Test(dtype, works_in_place) {
  works_in_place(TRAIN_BFLOAT16);
  works_in_place(TRAIN_FLOAT16);
}

Test(dtype, float16_rounds_at_its_limits) {
  cr_assert_eq(narrowed(TRAIN_FLOAT16, 65504.0f), 0x7bff);
  cr_assert_eq(narrowed(TRAIN_FLOAT16, 65519.99f), 0x7bff);
  cr_assert_eq(narrowed(TRAIN_FLOAT16, 65520.0f), 0x7c00);
  cr_assert_eq(narrowed(TRAIN_FLOAT16, -1e30f), 0xfc00);
  cr_assert_eq(narrowed(TRAIN_FLOAT16, 0x1p-24f), 1);
  cr_assert_eq(narrowed(TRAIN_FLOAT16, 0x1p-25f), 0);
  cr_assert_eq(narrowed(TRAIN_FLOAT16, 0x1.8p-24f), 2);
}

/* The value of a floating-point number with these field sizes, computed from the IEEE 754
 * definition. */
static double defined(uint16_t bits, int exponent_bits, int fraction_bits) {
  int exponent = bits >> fraction_bits & ((1 << exponent_bits) - 1);
  int fraction = bits & ((1 << fraction_bits) - 1), bias = (1 << (exponent_bits - 1)) - 1;
  double sign = bits & 0x8000 ? -1 : 1, part = ldexp(fraction, -fraction_bits);
  if (exponent == (1 << exponent_bits) - 1) return fraction > 0 ? NAN : sign * INFINITY;
  return sign * (exponent > 0 ? ldexp(1 + part, exponent - bias) : ldexp(part, 1 - bias));
}

Test(dtype, widens_every_number_exactly) {
  static const struct {
    train_dtype_t dtype;
    int exponent_bits, fraction_bits;
  } types[] = {{TRAIN_FLOAT16, 5, 10}, {TRAIN_BFLOAT16, 8, 7}};
  for (int type = 0; type < 2; type++) {
    for (int i = 0; i < 65536; i++) {
      uint16_t bits = (uint16_t)i;
      float value = widened(types[type].dtype, bits);
      double expected = defined(bits, types[type].exponent_bits, types[type].fraction_bits);
      if (isnan(expected)) {
        cr_assert(isnan(value), "%04x", i);
      } else {
        cr_assert_eq((double)value, expected, "%04x is %g, not %g", i, (double)value, expected);
        cr_assert_eq(signbit(value) != 0, signbit(expected) != 0, "%04x", i);
      }
    }
  }
}
