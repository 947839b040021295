/*
 * Floats are passed as double: the sum, product or quotient of two float32 rounded to double and
 * then to float32 is correctly rounded, because double has more than twice the digits.
 */
#include "device/reference.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "base/names.h"

typedef __int128 integer_t;

/* ---- narrow floats --------------------------------------------------------------------------*/

typedef struct format {
  int bits, fraction, bias;
  bool has_infinity;
} format_t;

static format_t format_of(coll_dtype_t dtype) {
  switch (dtype) {
    case COLL_FLOAT16: return (format_t){16, 10, 15, true};
    case COLL_BFLOAT16: return (format_t){16, 7, 127, true};
    case COLL_FLOAT8_E4M3: return (format_t){8, 3, 7, false};
    case COLL_FLOAT8_E5M2: return (format_t){8, 2, 15, true};
    default: assert(false); return (format_t){0};
  }
}

/* The value of a pattern by the definition of the format. */
static double narrow_value(format_t format, uint32_t pattern) {
  uint32_t fraction = pattern & ((1u << format.fraction) - 1);
  int exponent_bits = format.bits - 1 - format.fraction;
  int exponent = (int)(pattern >> format.fraction) & ((1 << exponent_bits) - 1);
  double sign = pattern >> (format.bits - 1) ? -1.0 : 1.0;
  bool top = exponent == (1 << exponent_bits) - 1;
  if (top && format.has_infinity) return fraction == 0 ? sign * INFINITY : (double)NAN;
  if (top && fraction == (1u << format.fraction) - 1) return (double)NAN;
  if (exponent == 0) return sign * ldexp(fraction, 1 - format.bias - format.fraction);
  return sign * ldexp(fraction + (1u << format.fraction), exponent - format.bias - format.fraction);
}

/* Pattern of the largest finite number. */
static uint32_t largest_finite(format_t format) {
  uint32_t all_ones = (1u << (format.bits - 1)) - 1;
  return format.has_infinity ? (all_ones >> format.fraction << format.fraction) - 1 : all_ones - 1;
}

static uint32_t narrow_pattern(format_t format, double value) {
  uint32_t sign = signbit(value) ? 1u << (format.bits - 1) : 0;
  if (isnan(value)) return sign | ((1u << (format.bits - 1)) - 1);
  double magnitude = fabs(value);
  uint32_t low = 0, high = largest_finite(format), last = high;
  /* binary search for the largest pattern whose value is not above the number */
  while (low < high) {
    uint32_t middle = (low + high + 1) / 2;
    if (narrow_value(format, middle) <= magnitude) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  double below = narrow_value(format, low);
  if (low == last && !format.has_infinity) return sign | last;
  if (isinf(magnitude)) return sign | (last + 1);
  /* The number after the largest is where it would be with a larger exponent. */
  double above =
      low == last ? below + (below - narrow_value(format, low - 1)) : narrow_value(format, low + 1);
  double up = above - magnitude, down = magnitude - below;
  bool rounds_up = up < down || (up == down && low % 2 == 1);
  return sign | (low + (rounds_up ? 1 : 0));
}

/* ---- elements -------------------------------------------------------------------------------*/

bool reference_is_narrow(coll_dtype_t dtype) {
  return dtype == COLL_FLOAT16 || dtype == COLL_BFLOAT16 || dtype == COLL_FLOAT8_E4M3 ||
         dtype == COLL_FLOAT8_E5M2;
}

bool reference_is_float(coll_dtype_t dtype) {
  return dtype == COLL_FLOAT32 || dtype == COLL_FLOAT64 || reference_is_narrow(dtype);
}

double reference_decode(coll_dtype_t dtype, const void *array, size_t index) {
  if (dtype == COLL_FLOAT32) return (double)((const float *)array)[index];
  if (dtype == COLL_FLOAT64) return ((const double *)array)[index];
  format_t format = format_of(dtype);
  uint32_t pattern =
      format.bits == 8 ? ((const uint8_t *)array)[index] : ((const uint16_t *)array)[index];
  return narrow_value(format, pattern);
}

void reference_encode(coll_dtype_t dtype, double value, void *array, size_t index) {
  if (dtype == COLL_FLOAT32) {
    ((float *)array)[index] = (float)value;
  } else if (dtype == COLL_FLOAT64) {
    ((double *)array)[index] = value;
  } else {
    format_t format = format_of(dtype);
    uint32_t pattern = narrow_pattern(format, value);
    if (format.bits == 8) {
      ((uint8_t *)array)[index] = (uint8_t)pattern;
    } else {
      ((uint16_t *)array)[index] = (uint16_t)pattern;
    }
  }
}

static integer_t load_integer(coll_dtype_t dtype, const void *array, size_t index) {
  switch (dtype) {
    case COLL_INT8: return ((const int8_t *)array)[index];
    case COLL_UINT8: return ((const uint8_t *)array)[index];
    case COLL_INT16: return ((const int16_t *)array)[index];
    case COLL_UINT16: return ((const uint16_t *)array)[index];
    case COLL_INT32: return ((const int32_t *)array)[index];
    case COLL_UINT32: return ((const uint32_t *)array)[index];
    case COLL_INT64: return ((const int64_t *)array)[index];
    default: return ((const uint64_t *)array)[index];
  }
}

/* Stores the low bits, in either byte order: the value modulo 2^width. */
static void store_integer(coll_dtype_t dtype, integer_t value, void *array, size_t index) {
  uint64_t low = (uint64_t)value;
  switch (base_dtype_bytes(dtype)) {
    case 1: ((uint8_t *)array)[index] = (uint8_t)low; break;
    case 2: ((uint16_t *)array)[index] = (uint16_t)low; break;
    case 4: ((uint32_t *)array)[index] = (uint32_t)low; break;
    default: ((uint64_t *)array)[index] = low; break;
  }
}

/* ---- arithmetic -----------------------------------------------------------------------------*/

/* As computed: in float64, or in float32 for all other types. */
static double rounded(coll_dtype_t dtype, double value) {
  return dtype == COLL_FLOAT64 ? value : (double)(float)value;
}

static double float_fold(coll_dtype_t dtype, coll_op_t op, double a, double b) {
  double result = 0.0;
  switch (op) {
    case COLL_PROD: result = a * b; break;
    case COLL_MAX: result = isnan(a) || isnan(b) ? (double)NAN : a > b ? a : b; break;
    case COLL_MIN: result = isnan(a) || isnan(b) ? (double)NAN : a < b ? a : b; break;
    default: result = a + b; break;
  }
  return rounded(dtype, result);
}

static integer_t integer_fold(coll_op_t op, integer_t a, integer_t b) {
  switch (op) {
    case COLL_PROD: return (integer_t)((unsigned __int128)a * (unsigned __int128)b);
    case COLL_MAX: return a > b ? a : b;
    case COLL_MIN: return a < b ? a : b;
    case COLL_BAND: return a & b;
    case COLL_BOR: return a | b;
    case COLL_BXOR: return a ^ b;
    default: return a + b;
  }
}

/* Left op right, split at the largest power of two below count; every operand times `weight`. */
static double float_tree(coll_dtype_t dtype, coll_op_t op, double weight,
                         const void *const sources[], int count, size_t index) {
  if (count == 1) return rounded(dtype, weight * reference_decode(dtype, sources[0], index));
  int cut = 1;
  while (2 * cut < count) cut *= 2;
  return float_fold(dtype, op, float_tree(dtype, op, weight, sources, cut, index),
                    float_tree(dtype, op, weight, sources + cut, count - cut, index));
}

/* The largest power of two that is at most 1/count. */
static double weight_of(int count) {
  double weight = 1;
  while (weight * count > 1) weight /= 2;
  return weight;
}

static double float_average(coll_dtype_t dtype, const void *const sources[], int count,
                            size_t index) {
  double weight = weight_of(count);
  double sum = float_tree(dtype, COLL_SUM, weight, sources, count, index);
  return rounded(dtype, sum / (count * weight));
}

void reference_reduce(coll_dtype_t dtype, coll_op_t op, const void *const sources[], int count,
                      size_t index, void *dst) {
  if (count == 1) {
    size_t bytes = base_dtype_bytes(dtype);
    memcpy((char *)dst + index * bytes, (const char *)sources[0] + index * bytes, bytes);
  } else if (reference_is_float(dtype)) {
    double result = op == COLL_AVG ? float_average(dtype, sources, count, index)
                                   : float_tree(dtype, op, 1, sources, count, index);
    reference_encode(dtype, result, dst, index);
  } else {
    uint64_t result[1];
    store_integer(dtype, load_integer(dtype, sources[0], index), result, 0);
    for (int k = 1; k < count; k++) {
      integer_t next = load_integer(dtype, sources[k], index);
      store_integer(dtype, integer_fold(op, load_integer(dtype, result, 0), next), result, 0);
    }
    store_integer(dtype, load_integer(dtype, result, 0), dst, index);
  }
}

void reference_scale(coll_dtype_t dtype, const void *scalar, const void *src, size_t index,
                     void *dst) {
  uint64_t aligned = 0;
  memcpy(&aligned, scalar, base_dtype_bytes(dtype));
  if (reference_is_float(dtype)) {
    double product = reference_decode(dtype, &aligned, 0) * reference_decode(dtype, src, index);
    reference_encode(dtype, rounded(dtype, product), dst, index);
  } else {
    integer_t factor = load_integer(dtype, &aligned, 0);
    store_integer(dtype, integer_fold(COLL_PROD, factor, load_integer(dtype, src, index)), dst,
                  index);
  }
}

void reference_divide(coll_dtype_t dtype, int operands, const void *src, size_t index, void *dst) {
  if (reference_is_float(dtype)) {
    double quotient = reference_decode(dtype, src, index) / (operands * weight_of(operands));
    reference_encode(dtype, rounded(dtype, quotient), dst, index);
  } else {
    store_integer(dtype, load_integer(dtype, src, index) / operands, dst, index);
  }
}

bool reference_same(coll_dtype_t dtype, const void *a, const void *b, size_t index) {
  size_t bytes = base_dtype_bytes(dtype);
  if (memcmp((const char *)a + index * bytes, (const char *)b + index * bytes, bytes) == 0) {
    return true;
  }
  return reference_is_float(dtype) && isnan(reference_decode(dtype, a, index)) &&
         isnan(reference_decode(dtype, b, index));
}
