/* Tests the tables of the host device with the kit and against each other, streaming, and the
 * conversions of every pattern. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/knob.h"
#include "device/host/host.h"
#include "device/host/narrow.h"
#include "device/kit.h"
#include "device/reference.h"
#include "harness/sample.h"

#define STREAM_BYTES 4096 /* within the range of sizes of the kit */

/* Returns the table of that name, set to stream from stream_bytes. Skips the test if the processor
 * lacks the instructions. */
static const device_ops_t *table(const char *isa, size_t stream_bytes) {
  const device_ops_t *ops = host_isa_find(isa);
  if (ops == NULL) cr_skip_test("this processor has no %s", isa);
  host_stream_set(stream_bytes);
  return ops;
}

DEVICE_KIT(portable, device_host_portable)
DEVICE_KIT(avx2, *table("avx2", SIZE_MAX))
DEVICE_KIT(avx512, *table("avx512", SIZE_MAX))
DEVICE_KIT(avx512bf16, *table("avx512bf16", SIZE_MAX))
DEVICE_KIT(neon, *table("neon", SIZE_MAX))

/* ---- streaming and choice -------------------------------------------------------------------*/

static const char *const isas[] = {"avx2", "avx512", "avx512bf16", "neon"};
enum { ISAS = sizeof isas / sizeof isas[0] };

Test(host, computes_correctly_when_streaming) {
  for (int i = 0; i < ISAS; i++) {
    if (host_isa_find(isas[i]) == NULL) continue;
    const device_ops_t *ops = table(isas[i], STREAM_BYTES);
    device_kit_copy(ops);
    device_kit_reduce(ops, COLL_FLOAT32);
    device_kit_reduce(ops, COLL_BFLOAT16);
    device_kit_reduce(ops, COLL_INT8);
    device_kit_reduce(ops, COLL_UINT16);
    host_stream_set(1);
    device_kit_copy(ops);
    device_kit_tails(ops, COLL_INT8);
    device_kit_tails(ops, COLL_INT16);
    device_kit_tails(ops, COLL_FLOAT16);
    device_kit_tails(ops, COLL_FLOAT64);
  }
}

/* Larger than any size of the kit: from 1 MiB on copies use other instructions. */
Test(host, copies_more_than_1_mib) {
  enum { BYTES = (1 << 20) + 77, EDGE = 64, ROOM = BYTES + 3 * EDGE };
  unsigned char *src = malloc(ROOM), *dst = malloc(ROOM);
  cr_assert(src != NULL && dst != NULL);
  for (size_t i = 0; i < ROOM; i++) src[i] = (unsigned char)(i * 2654435761u >> 13);
  for (int i = 0; i < ISAS; i++) {
    if (host_isa_find(isas[i]) == NULL) continue;
    const device_ops_t *ops = table(isas[i], SIZE_MAX);
    for (size_t shift = EDGE; shift < 2 * EDGE; shift += 21) {
      memset(dst, 0xa5, ROOM);
      cr_assert_eq(ops->copy(dst + shift, src + EDGE, BYTES, BYTES), COLL_OK);
      cr_assert_eq(memcmp(dst + shift, src + EDGE, BYTES), 0, "%s, %zu bytes shift", isas[i],
                   shift);
      cr_assert(dst[shift - 1] == 0xa5 && dst[shift + BYTES] == 0xa5,
                "%s: wrote outside of the destination", isas[i]);
    }
  }
  free(src);
  free(dst);
}

Test(host, computes_the_same_bits_with_all_instruction_sets) {
  for (int i = 0; i < ISAS; i++) {
    const device_ops_t *ops = host_isa_find(isas[i]);
    for (int dtype = 0; ops != NULL && dtype < COLL_DTYPE_COUNT; dtype++) {
      device_kit_agree(ops, &device_host_portable, (coll_dtype_t)dtype);
    }
  }
}

Test(host, opens_the_table_that_the_knob_names) {
  const device_ops_t *ops = NULL;
  setenv("COLL_ISA", "portable", 1);
  cr_assert_eq(device_host_open(&ops), COLL_OK, "%s", base_last_error());
  cr_assert_eq(ops, &device_host_portable);
  setenv("COLL_ISA", "auto", 1);
  cr_assert_eq(device_host_open(&ops), COLL_OK, "%s", base_last_error());
  for (int i = 0; i < ISAS; i++) {
    const device_ops_t *found = host_isa_find(isas[i]), *opened = NULL;
    setenv("COLL_ISA", isas[i], 1);
    cr_assert_eq(device_host_open(&opened), found != NULL ? COLL_OK : COLL_ERROR_INVALID);
    cr_assert_eq(opened, found);
    if (found == NULL) cr_assert_not_null(strstr(base_last_error(), isas[i]));
    cr_assert(found == NULL || ops != &device_host_portable, "auto should have found %s", isas[i]);
  }
}

Test(host, refuses_wrong_knobs) {
  const device_ops_t *ops = NULL;
  setenv("COLL_ISA", "avx215", 1);
  cr_assert_eq(device_host_open(&ops), COLL_ERROR_INVALID);
  cr_assert_not_null(strstr(base_last_error(), "'avx2'"), "%s", base_last_error());
  unsetenv("COLL_ISA");
  setenv("COLL_STREAM_BYTES", "much", 1);
  cr_assert_eq(device_host_open(&ops), COLL_ERROR_INVALID);
  cr_assert_not_null(strstr(base_last_error(), "COLL_STREAM_BYTES"), "%s", base_last_error());
  cr_assert_null(ops);
  cr_assert_str_eq(device_knob(0)->name, "COLL_ISA");
  cr_assert_null(device_knob(2));
}

/* ---- conversions ----------------------------------------------------------------------------*/

typedef struct conversion {
  const char *name;
  coll_dtype_t dtype;
  size_t bytes;
  float (*decode)(uint32_t pattern);
  uint32_t (*encode)(float value);
} conversion_t;

static const conversion_t conversions[] = {
    {"float16", COLL_FLOAT16, 2, float16_decode, float16_encode},
    {"bfloat16", COLL_BFLOAT16, 2, bfloat16_decode, bfloat16_encode},
    {"float8_e4m3", COLL_FLOAT8_E4M3, 1, float8_e4m3_decode, float8_e4m3_encode},
    {"float8_e5m2", COLL_FLOAT8_E5M2, 1, float8_e5m2_decode, float8_e5m2_encode},
};
enum { CONVERSIONS = sizeof conversions / sizeof conversions[0] };

static uint16_t pattern_of(const conversion_t *c, float value) {
  return (uint16_t)c->encode(value);
}

static float value_of(const conversion_t *c, uint16_t pattern) {
  return c->decode(pattern);
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
    for (uint32_t i = 0; i < 1u << (8 * c->bytes); i++) {
      uint16_t pattern = (uint16_t)i;
      double right = reference_decode(c->dtype, &pattern, 0);
      float value = value_of(c, pattern);
      if (isnan(right)) {
        cr_assert(isnan(value), "%s 0x%x", c->name, i);
        cr_assert(isnan(value_of(c, pattern_of(c, value))), "%s 0x%x", c->name, i);
        cr_assert_eq(signbit(value) != 0, (i >> (8 * c->bytes - 1)) != 0);
      } else {
        cr_assert((double)value == right && !signbit(value) == !signbit(right), "%s 0x%x is %a",
                  c->name, i, (double)value);
        cr_assert_eq(pattern_of(c, value), pattern, "%s 0x%x was encoded as 0x%x", c->name, i,
                     pattern_of(c, value));
      }
    }
  }
}

Test(narrow, rounds_ties_to_even_and_values_next_to_them) {
  for (int k = 0; k < CONVERSIONS; k++) {
    const conversion_t *c = &conversions[k];
    unsigned stride = c->bytes == 1 ? 1 : harness_stride(HARNESS_VALUES);
    for (uint32_t n = 0; n < (1u << (8 * c->bytes - 1)) - 1; n += stride) {
      uint16_t i = (uint16_t)n;
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

Test(narrow, encodes_random_floats) {
  for (int k = 0; k < CONVERSIONS; k++) {
    for (uint64_t bits = 0; bits <= UINT32_MAX; bits += 10007 * harness_stride(HARNESS_VALUES)) {
      uint32_t pattern = (uint32_t)bits;
      float value;
      memcpy(&value, &pattern, sizeof value);
      check_encode(&conversions[k], value);
    }
  }
}

Test(narrow, overflows_by_the_rules_of_each_format) {
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
