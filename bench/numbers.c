/* One codec for all floating-point dtypes, parameterized by the widths of their bit fields. */
#include "bench/numbers.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/names.h"

bool bench_dtype_is_float(coll_dtype_t dtype) {
  return !base_dtype_is_integer(dtype);
}

bool bench_dtype_is_signed(coll_dtype_t dtype) {
  return base_dtype_is_signed(dtype);
}

bench_format_t bench_format_of(coll_dtype_t dtype) {
  switch (dtype) {
    case COLL_FLOAT16: return (bench_format_t){5, 10, 15, true};
    case COLL_BFLOAT16: return (bench_format_t){8, 7, 127, true};
    case COLL_FLOAT32: return (bench_format_t){8, 23, 127, true};
    case COLL_FLOAT64: return (bench_format_t){11, 52, 1023, true};
    case COLL_FLOAT8_E4M3: return (bench_format_t){4, 3, 7, false};
    case COLL_FLOAT8_E5M2: return (bench_format_t){5, 2, 15, true};
    default: assert(!"a floating-point dtype"); return (bench_format_t){0};
  }
}

uint64_t bench_element_load(coll_dtype_t dtype, const void *element) {
  uint8_t bits8;
  uint16_t bits16;
  uint32_t bits32;
  uint64_t bits64;
  switch (coll_dtype_bytes(dtype)) {
    case 1: memcpy(&bits8, element, 1); return bits8;
    case 2: memcpy(&bits16, element, 2); return bits16;
    case 4: memcpy(&bits32, element, 4); return bits32;
    default: memcpy(&bits64, element, 8); return bits64;
  }
}

void bench_element_store(coll_dtype_t dtype, uint64_t bits, void *element) {
  uint8_t bits8 = (uint8_t)bits;
  uint16_t bits16 = (uint16_t)bits;
  uint32_t bits32 = (uint32_t)bits;
  switch (coll_dtype_bytes(dtype)) {
    case 1: memcpy(element, &bits8, 1); break;
    case 2: memcpy(element, &bits16, 2); break;
    case 4: memcpy(element, &bits32, 4); break;
    default: memcpy(element, &bits, 8); break;
  }
}

/* The bits of the largest finite magnitude. */
static uint64_t largest_finite(bench_format_t format) {
  uint64_t all_ones = (UINT64_C(1) << (format.exponent_bits + format.mantissa_bits)) - 1;
  return format.has_infinity ? all_ones - (UINT64_C(1) << format.mantissa_bits) : all_ones - 1;
}

double bench_float_decode(coll_dtype_t dtype, uint64_t bits) {
  bench_format_t format = bench_format_of(dtype);
  int magnitude_bits = format.exponent_bits + format.mantissa_bits;
  uint64_t magnitude = bits & ((UINT64_C(1) << magnitude_bits) - 1);
  uint64_t mantissa = magnitude & ((UINT64_C(1) << format.mantissa_bits) - 1);
  int exponent = (int)(magnitude >> format.mantissa_bits);
  double value;
  if (magnitude > largest_finite(format)) {
    value = format.has_infinity && mantissa == 0 ? INFINITY : NAN;
  } else if (exponent == 0) {
    value = ldexp((double)mantissa, 1 - format.bias - format.mantissa_bits);
  } else {
    value = ldexp((double)(mantissa + (UINT64_C(1) << format.mantissa_bits)),
                  exponent - format.bias - format.mantissa_bits);
  }
  return bits >> magnitude_bits & 1 ? -value : value;
}

/* Counts in units of the last place from the lower end of the exponent's range. A carry out of the
 * mantissa then increments the exponent, and subnormals need no case of their own. */
static uint64_t encode_magnitude(bench_format_t format, double value) {
  uint64_t limit = largest_finite(format);
  if (isinf(value)) return format.has_infinity ? limit + 1 : limit;
  int exponent;
  frexp(value, &exponent);
  exponent -= 1;
  if (value == 0 || exponent < 1 - format.bias) exponent = 1 - format.bias;
  if (exponent > format.bias + 1) return format.has_infinity ? limit + 1 : limit;
  uint64_t units = (uint64_t)nearbyint(ldexp(value, format.mantissa_bits - exponent));
  uint64_t bits = ((uint64_t)(exponent + format.bias - 1) << format.mantissa_bits) + units;
  if (bits <= limit) return bits;
  return format.has_infinity ? limit + 1 : limit;
}

uint64_t bench_float_encode(coll_dtype_t dtype, double value) {
  bench_format_t format = bench_format_of(dtype);
  int magnitude_bits = format.exponent_bits + format.mantissa_bits;
  uint64_t sign = (uint64_t)(signbit(value) != 0) << magnitude_bits;
  if (isnan(value)) return sign | ((UINT64_C(1) << magnitude_bits) - 1);
  return sign | encode_magnitude(format, fabs(value));
}

const char *bench_element_text(coll_dtype_t dtype, uint64_t bits, char text[48]) {
  if (bench_dtype_is_float(dtype)) {
    snprintf(text, 48, "%.17g (0x%0*" PRIx64 ")", bench_float_decode(dtype, bits),
             (int)(2 * coll_dtype_bytes(dtype)), bits);
  } else if (bench_dtype_is_signed(dtype)) {
    int unused = 64 - 8 * (int)coll_dtype_bytes(dtype);
    snprintf(text, 48, "%" PRId64, (int64_t)(bits << unused) >> unused);
  } else {
    snprintf(text, 48, "%" PRIu64, bits);
  }
  return text;
}
