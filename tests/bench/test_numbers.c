/* Compares the codec with the definitions of the formats: known values, every bit pattern, and a
 * linear search for the nearest representable number. */
#include <criterion/criterion.h>
#include <math.h>

#include "bench/numbers.h"

static const coll_dtype_t small_floats[] = {COLL_FLOAT8_E4M3, COLL_FLOAT8_E5M2, COLL_FLOAT16,
                                            COLL_BFLOAT16};

enum { SMALL_FLOATS = sizeof small_floats / sizeof small_floats[0] };

static uint64_t patterns_of(coll_dtype_t dtype) {
  return UINT64_C(1) << (8 * coll_dtype_bytes(dtype));
}

Test(numbers, known_values) {
  static const struct {
    coll_dtype_t dtype;
    uint64_t bits;
    double value;
  } known_values[] = {
      {COLL_FLOAT8_E4M3, 0x38, 1},
      {COLL_FLOAT8_E4M3, 0x7e, 448},
      {COLL_FLOAT8_E4M3, 0x01, 0x1p-9},
      {COLL_FLOAT8_E4M3, 0x08, 0x1p-6},
      {COLL_FLOAT8_E4M3, 0xb9, -1.125},
      {COLL_FLOAT8_E5M2, 0x3c, 1},
      {COLL_FLOAT8_E5M2, 0x7b, 57344},
      {COLL_FLOAT8_E5M2, 0x01, 0x1p-16},
      {COLL_FLOAT8_E5M2, 0x7c, INFINITY},
      {COLL_FLOAT16, 0x3c00, 1},
      {COLL_FLOAT16, 0x7bff, 65504},
      {COLL_FLOAT16, 0x0001, 0x1p-24},
      {COLL_FLOAT16, 0xc248, -3.140625},
      {COLL_BFLOAT16, 0x3f80, 1},
      {COLL_BFLOAT16, 0x0001, 0x1p-133},
      {COLL_BFLOAT16, 0xff80, -INFINITY},
      {COLL_FLOAT32, 0x40490fdb, 3.14159274101257324},
      {COLL_FLOAT64, 0x3ff8000000000000, 1.5},
  };
  for (size_t i = 0; i < sizeof known_values / sizeof known_values[0]; i++) {
    double value = bench_float_decode(known_values[i].dtype, known_values[i].bits);
    cr_expect_eq(value, known_values[i].value, "%s 0x%llx is %.17g",
                 coll_dtype_name(known_values[i].dtype), (unsigned long long)known_values[i].bits,
                 value);
    cr_expect_eq(bench_float_encode(known_values[i].dtype, known_values[i].value),
                 known_values[i].bits);
  }
}

Test(numbers, every_pattern_survives_decode_and_encode) {
  for (size_t t = 0; t < SMALL_FLOATS; t++) {
    for (uint64_t bits = 0; bits < patterns_of(small_floats[t]); bits++) {
      double value = bench_float_decode(small_floats[t], bits);
      uint64_t back = bench_float_encode(small_floats[t], value);
      if (isnan(value)) {
        cr_assert(isnan(bench_float_decode(small_floats[t], back)));
      } else {
        cr_assert_eq(back, bits, "%s 0x%llx became 0x%llx", coll_dtype_name(small_floats[t]),
                     (unsigned long long)bits, (unsigned long long)back);
      }
    }
  }
}

Test(numbers, wide_floats_agree_with_the_compiler) {
  uint64_t state = 1;
  for (int i = 0; i < 200000; i++) {
    state = state * UINT64_C(6364136223846793005) + 1;
    double value = ldexp((double)(int64_t)state, (int)(state >> 7 & 255) - 191);
    float narrow = (float)value;
    cr_assert_eq(bench_float_encode(COLL_FLOAT32, value),
                 bench_element_load(COLL_FLOAT32, &narrow));
    uint64_t bits = bench_element_load(COLL_FLOAT64, &value);
    cr_assert_eq(bench_float_encode(COLL_FLOAT64, value), bits);
    cr_assert_eq(bench_float_decode(COLL_FLOAT64, bits), value);
  }
}

/* Positive numbers ascend with their bits, so a linear search finds the neighbours of a value. Of
 * two equally near ones the even one is chosen. Above the largest number, rounding works as if the
 * next power of two existed; a format without infinity saturates. */
static uint64_t nearest(coll_dtype_t dtype, double value, uint64_t largest) {
  uint64_t below = 0;
  while (below < largest && bench_float_decode(dtype, below + 1) <= value) below++;
  if (below == largest) {
    double step = bench_float_decode(dtype, largest) - bench_float_decode(dtype, largest - 1);
    bool over = value >= bench_float_decode(dtype, largest) + step / 2;
    return over && bench_format_of(dtype).has_infinity ? largest + 1 : largest;
  }
  double down = value - bench_float_decode(dtype, below);
  double up = bench_float_decode(dtype, below + 1) - value;
  if (down == up) return below % 2 == 0 ? below : below + 1;
  return down < up ? below : below + 1;
}

Test(numbers, rounding_is_to_nearest_even) {
  for (size_t t = 0; t < 2; t++) {
    coll_dtype_t dtype = small_floats[t];
    uint64_t largest = dtype == COLL_FLOAT8_E4M3 ? 0x7e : 0x7b;
    for (uint64_t bits = 0; bits <= largest; bits++) {
      double low = bench_float_decode(dtype, bits);
      double high = bits < largest ? bench_float_decode(dtype, bits + 1)
                                   : 2 * low - bench_float_decode(dtype, bits - 1);
      for (int eighth = 0; eighth <= 8; eighth++) {
        double value = low + (high - low) * eighth / 8;
        cr_assert_eq(bench_float_encode(dtype, value), nearest(dtype, value, largest), "%s %.17g",
                     coll_dtype_name(dtype), value);
        cr_assert_eq(bench_float_encode(dtype, -value), nearest(dtype, value, largest) | 0x80);
      }
    }
  }
}

Test(numbers, overflow) {
  cr_assert_eq(bench_float_encode(COLL_FLOAT8_E4M3, 1e300), 0x7e);
  cr_assert_eq(bench_float_encode(COLL_FLOAT8_E4M3, -INFINITY), 0xfe);
  cr_assert_eq(bench_float_encode(COLL_FLOAT8_E5M2, 1e300), 0x7c);
  cr_assert_eq(bench_float_encode(COLL_FLOAT16, 65520), 0x7c00);
  cr_assert_eq(bench_float_encode(COLL_FLOAT16, 65519.99), 0x7bff);
  cr_assert_eq(bench_float_encode(COLL_BFLOAT16, 1e300), 0x7f80);
}

Test(numbers, elements_are_text) {
  char text[48];
  cr_assert_str_eq(bench_element_text(COLL_INT8, 0xfd, text), "-3");
  cr_assert_str_eq(bench_element_text(COLL_INT16, 0xfffd, text), "-3");
  cr_assert_str_eq(bench_element_text(COLL_UINT16, 0xfffd, text), "65533");
  cr_assert_str_eq(bench_element_text(COLL_UINT64, UINT64_MAX, text), "18446744073709551615");
  cr_assert_str_eq(bench_element_text(COLL_FLOAT8_E4M3, 0xb9, text), "-1.125 (0xb9)");
}
