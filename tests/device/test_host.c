/* The host device against the kit, and its conversions one pattern at a time. */
#include <math.h>
#include <string.h>

#include "device/host/narrow.h"
#include "device/kit.h"
#include "device/reference.h"

DEVICE_KIT(device_host, device_host)

typedef struct conversion {
  const char *name;
  coll_dtype_t dtype;
  const host_narrow_t *narrow;
} conversion_t;

static const conversion_t conversions[] = {
    {"float16", COLL_FLOAT16, &host_float16},
    {"bfloat16", COLL_BFLOAT16, &host_bfloat16},
    {"float8_e4m3", COLL_FLOAT8_E4M3, &host_float8_e4m3},
    {"float8_e5m2", COLL_FLOAT8_E5M2, &host_float8_e5m2},
};
enum { CONVERSIONS = sizeof conversions / sizeof conversions[0] };

static uint16_t pattern_of(const conversion_t *c, float value) {
  uint16_t pattern[8] = {0};
  float values[8];
  for (int i = 0; i < 8; i++) values[i] = value; /* a whole vector */
  c->narrow->encode(pattern, values, 8);
  return c->narrow->bytes == 1 ? (uint16_t)(pattern[0] & 0xff) : pattern[0];
}

static float value_of(const conversion_t *c, uint16_t pattern) {
  uint8_t byte = (uint8_t)pattern;
  float value;
  c->narrow->decode(&value, c->narrow->bytes == 1 ? (const void *)&byte : &pattern, 1);
  return value;
}

static void check_encode(const conversion_t *c, float value) {
  uint16_t right = 0, got = pattern_of(c, value);
  reference_encode(c->dtype, (double)value, &right, 0);
  cr_assert(reference_same(c->dtype, &got, &right, 0), "%s of %a: 0x%x, not 0x%x", c->name,
            (double)value, got, right);
}

Test(narrow, decodes_and_encodes_every_pattern) {
  for (int k = 0; k < CONVERSIONS; k++) {
    const conversion_t *c = &conversions[k];
    for (uint32_t i = 0; i < 1u << (8 * c->narrow->bytes); i++) {
      uint16_t pattern = (uint16_t)i;
      double right = reference_decode(c->dtype, &pattern, 0);
      float value = value_of(c, pattern);
      if (isnan(right)) {
        cr_assert(isnan(value), "%s 0x%x", c->name, i);
        cr_assert(isnan(value_of(c, pattern_of(c, value))), "%s 0x%x", c->name, i);
        cr_assert_eq(signbit(value) != 0, (i >> (8 * c->narrow->bytes - 1)) != 0);
      } else {
        cr_assert((double)value == right && !signbit(value) == !signbit(right), "%s 0x%x is %a",
                  c->name, i, (double)value);
        cr_assert_eq(pattern_of(c, value), pattern, "%s 0x%x came back as 0x%x", c->name, i,
                     pattern_of(c, value));
      }
    }
  }
}

Test(narrow, rounds_ties_to_even_and_their_neighbours_apart) {
  for (int k = 0; k < CONVERSIONS; k++) {
    const conversion_t *c = &conversions[k];
    for (uint16_t i = 0; i < (1u << (8 * c->narrow->bytes - 1)) - 1; i++) {
      float low = value_of(c, i), high = value_of(c, (uint16_t)(i + 1));
      if (!isfinite(low) || !isfinite(high)) continue;
      float tie = low + (high - low) / 2;
      for (int sign = -1; sign <= 1; sign += 2) {
        check_encode(c, (float)sign * tie);
        check_encode(c, (float)sign * nextafterf(tie, 0.0f));
        check_encode(c, (float)sign * nextafterf(tie, INFINITY));
        check_encode(c, (float)sign * nextafterf(high, 0.0f));
        check_encode(c, (float)sign * nextafterf(high, INFINITY));
      }
    }
  }
}

Test(narrow, encodes_floats_from_all_over) {
  for (int k = 0; k < CONVERSIONS; k++) {
    for (uint64_t bits = 0; bits <= UINT32_MAX; bits += 10007) {
      uint32_t pattern = (uint32_t)bits;
      float value;
      memcpy(&value, &pattern, sizeof value);
      check_encode(&conversions[k], value);
    }
  }
}

Test(narrow, overflows_as_each_format_does) {
  const conversion_t *float16 = &conversions[0], *bfloat16 = &conversions[1];
  const conversion_t *e4m3 = &conversions[2], *e5m2 = &conversions[3];
  cr_assert_eq(pattern_of(float16, 65519.0f), 0x7bff);
  cr_assert_eq(pattern_of(float16, 65520.0f), 0x7c00);
  cr_assert_eq(pattern_of(float16, -INFINITY), 0xfc00);
  cr_assert_eq(pattern_of(bfloat16, 3.4e38f), 0x7f80);
  cr_assert_eq(pattern_of(e4m3, 464.0f), 0x7e);
  cr_assert_eq(pattern_of(e4m3, -1e30f), 0xfe);
  cr_assert_eq(pattern_of(e4m3, INFINITY), 0x7e);
  cr_assert_eq(pattern_of(e4m3, NAN) & 0x7f, 0x7f);
  cr_assert_eq(pattern_of(e5m2, 61439.0f), 0x7b);
  cr_assert_eq(pattern_of(e5m2, 61440.0f), 0x7c);
  cr_assert_eq(pattern_of(e5m2, -INFINITY), 0xfc);
  cr_assert_gt(pattern_of(e5m2, NAN) & 0x7f, 0x7c);
}
