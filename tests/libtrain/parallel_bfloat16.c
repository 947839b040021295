/* Compares bfloat16 conversion with its definition, rounding to the nearest neighbor, also in
 * place. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "libtrain/parallel/bfloat16.h"
#include "reference.h"

static float widened(uint16_t narrow) {
  float wide;
  train_bfloat16_widen(&narrow, 1, &wide);
  return wide;
}

static uint16_t narrowed(float wide) {
  uint16_t narrow;
  train_bfloat16_narrow(&wide, 1, &narrow);
  return narrow;
}

/* Finds the neighbors of `wide` among all bfloat16 numbers by exhaustive search. */
static void check_nearest(float wide) {
  uint16_t got = narrowed(wide);
  double error = fabs((double)widened(got) - (double)wide);
  for (int step = -1; step <= 1; step += 2) {
    uint16_t other = (uint16_t)(got + step);
    double other_error = fabs((double)widened(other) - (double)wide);
    if (isinf((double)widened(other)) || isnan(other_error)) continue;
    cr_assert(error < other_error || (error == other_error && (got & 1u) == 0),
              "%a became %a, %a is nearer", (double)wide, (double)widened(got),
              (double)widened(other));
  }
}

Test(parallel_bfloat16, rounds_to_nearest) {
  float values[4096];
  random_fill(5, 3.0, 4096, values);
  for (int i = 0; i < 4096; i++) check_nearest(values[i]);
  for (int i = 0; i < 4096; i++) check_nearest(values[i] * 1e-39f);
  const float ties[] = {0x1.01p0f, 0x1.03p0f, 0x1.010002p0f, 0x1.00fffep0f, -0x1.05p-20f, 0.0f};
  for (size_t i = 0; i < sizeof ties / sizeof ties[0]; i++) check_nearest(ties[i]);
}

Test(parallel_bfloat16, special_values_are_preserved) {
  cr_assert(isnan((double)widened(narrowed(NAN))));
  uint32_t bits = 0x7f800001u; /* a NaN whose upper fraction bits are zero */
  float quiet;
  memcpy(&quiet, &bits, sizeof quiet);
  cr_assert(isnan((double)widened(narrowed(quiet))));
  cr_assert_eq(widened(narrowed(INFINITY)), INFINITY);
  cr_assert_eq(widened(narrowed(-INFINITY)), -INFINITY);
  cr_assert(signbit(widened(narrowed(-0.0f))));
}

Test(parallel_bfloat16, every_value_survives_a_round_trip) {
  for (uint32_t i = 0; i < 0x10000; i++) {
    if ((i & 0x7fffu) > 0x7f80u) continue;
    cr_assert_eq(narrowed(widened((uint16_t)i)), i);
  }
}

Test(parallel_bfloat16, works_in_place) {
  for (size_t count = 0; count < 1100; count += 1 + count / 7) {
    float *wide = malloc((count + 1) * sizeof *wide), *buffer = malloc((count + 1) * sizeof *wide);
    uint16_t *narrow = malloc((count + 1) * sizeof *narrow);
    random_fill(count, 1.0, count, wide);
    memcpy(buffer, wide, count * sizeof *wide);
    train_bfloat16_narrow(wide, count, narrow);
    train_bfloat16_narrow(buffer, count, (uint16_t *)buffer);
    cr_assert_arr_eq(buffer, narrow, count * sizeof *narrow);
    train_bfloat16_widen(narrow, count, wide);
    train_bfloat16_widen((const uint16_t *)buffer, count, buffer);
    cr_assert_arr_eq(buffer, wide, count * sizeof *wide);
    free(wide);
    free(buffer);
    free(narrow);
  }
}
