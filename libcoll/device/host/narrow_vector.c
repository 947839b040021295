/*
 * The loops of float16 and the float8 types on vectors, where the processor converts float16. A
 * float8 goes by way of it: e5m2 is its upper byte, and e4m3 has the same exponents 2^8 lower.
 * Encoding a float8 first rounds the float32 to its precision, so that what follows is exact.
 */
#if defined(__x86_64__)
#include <immintrin.h>
#endif
#include <stdint.h>
#include <string.h>

#include "device/host/kernels.h"

#ifdef __AVX512F__
#define LANES 16
#else
#define LANES 8
#endif

typedef float floats_t __attribute__((vector_size(4 * LANES)));
typedef int32_t words_t __attribute__((vector_size(4 * LANES)));
typedef uint16_t halves_t __attribute__((vector_size(2 * LANES)));
typedef uint8_t bytes_t __attribute__((vector_size(LANES)));

/* ---- what the processor converts ------------------------------------------------------------*/

/* To float16 rounds to nearest, ties to even; bytes are the lower halves. Compilers split the
 * generic conversions of bytes. */
#if defined(__AVX512F__)
HOST_INLINE floats_t from_float16(halves_t halves) {
  return (floats_t)_mm512_cvtph_ps((__m256i)halves);
}
HOST_INLINE halves_t to_float16(floats_t floats) {
  return (halves_t)_mm512_cvtps_ph((__m512)floats, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
HOST_INLINE halves_t from_bytes(bytes_t bytes) {
  return (halves_t)_mm256_cvtepu8_epi16((__m128i)bytes);
}
HOST_INLINE bytes_t to_bytes(halves_t halves) {
  return (bytes_t)_mm256_cvtepi16_epi8((__m256i)halves);
}
#elif defined(__F16C__)
HOST_INLINE floats_t from_float16(halves_t halves) {
  return (floats_t)_mm256_cvtph_ps((__m128i)halves);
}
HOST_INLINE halves_t to_float16(floats_t floats) {
  return (halves_t)_mm256_cvtps_ph((__m256)floats, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
HOST_INLINE halves_t from_bytes(bytes_t bytes) {
  return (halves_t)_mm_cvtepu8_epi16(_mm_cvtsi64_si128((long long)bytes));
}
HOST_INLINE bytes_t to_bytes(halves_t halves) {
  __m128i low = (__m128i)(halves & 0xff);
  return (bytes_t)_mm_cvtsi128_si64(_mm_packus_epi16(low, low));
}
#else
typedef __fp16 float16s_t __attribute__((vector_size(2 * LANES)));
HOST_INLINE floats_t from_float16(halves_t halves) {
  return __builtin_convertvector((float16s_t)halves, floats_t);
}
HOST_INLINE halves_t to_float16(floats_t floats) {
  return (halves_t) __builtin_convertvector(floats, float16s_t);
}
HOST_INLINE halves_t from_bytes(bytes_t bytes) {
  return __builtin_convertvector(bytes, halves_t);
}
HOST_INLINE bytes_t to_bytes(halves_t halves) {
  return __builtin_convertvector(halves, bytes_t);
}
#endif

/* ---- operations, as real.h has them ---------------------------------------------------------*/

#define DEFAULT_NAN 0x7fc00000

typedef floats_t (*operation_t)(floats_t a, floats_t b);

/* Lanes of the mask are all ones or all zeros, as comparisons make them. */
HOST_INLINE words_t chosen(words_t mask, words_t yes, words_t no) {
  return (mask & yes) | (~mask & no);
}

HOST_INLINE floats_t settled(floats_t value) {
  words_t number = (words_t)(value == value);
  return (floats_t)chosen(number, (words_t)value, (words_t){0} + DEFAULT_NAN);
}

HOST_INLINE floats_t sum(floats_t a, floats_t b) {
  return settled(a + b);
}

HOST_INLINE floats_t product(floats_t a, floats_t b) {
  return settled(a * b);
}

HOST_INLINE floats_t quotient(floats_t a, floats_t b) {
  return settled(a / b);
}

HOST_INLINE floats_t winner_or_nan(floats_t a, floats_t b, words_t a_wins) {
  words_t numbers = (words_t)(a == a) & (words_t)(b == b);
  words_t winner = chosen(a_wins, (words_t)a, (words_t)b);
  return (floats_t)chosen(numbers, winner, (words_t){0} + DEFAULT_NAN);
}

HOST_INLINE floats_t max(floats_t a, floats_t b) {
  return winner_or_nan(a, b, (words_t)(a > b));
}

HOST_INLINE floats_t min(floats_t a, floats_t b) {
  return winner_or_nan(a, b, (words_t)(a < b));
}

/* ---- formats --------------------------------------------------------------------------------*/

#define FRACTION_BITS 23
#define EXPONENT 0x7f800000
#define POWER_OF_TWO(exponent) ((127 + (exponent)) << FRACTION_BITS)

/* Fraction bits and bounds of a float8, as float32 patterns. */
typedef struct precision {
  int fraction;
  int least_normal; /* the next lower power has as few places */
  int most;         /* what overflow becomes */
  int nan;          /* what NaN becomes */
} precision_t;

/* The nearest value of that precision, ties to even: what is left when a power of two is added of
 * which that is the last place, and taken away again. */
HOST_INLINE floats_t rounded(floats_t value, precision_t precision) {
  words_t bits = (words_t)value, magnitude = bits & INT32_MAX, none = {0};
  magnitude = chosen(magnitude < precision.most, magnitude, none + precision.most);
  words_t power = magnitude & EXPONENT;
  power = chosen(power > precision.least_normal, power, none + precision.least_normal);
  floats_t anchor = (floats_t)(power + ((FRACTION_BITS - precision.fraction) << FRACTION_BITS));
  words_t nearest = (words_t)(((floats_t)magnitude + anchor) - anchor);
  nearest = chosen((words_t)(value == value), nearest, none + precision.nan);
  return (floats_t)(nearest | (bits & INT32_MIN));
}

HOST_INLINE halves_t load_bytes(const void *from) {
  bytes_t bytes;
  memcpy(&bytes, from, sizeof bytes);
  return from_bytes(bytes);
}

HOST_INLINE void store_bytes(void *to, halves_t halves) {
  bytes_t bytes = to_bytes(halves);
  memcpy(to, &bytes, sizeof bytes);
}

HOST_INLINE floats_t float32_load(const void *from) {
  floats_t value;
  memcpy(&value, from, sizeof value);
  return value;
}

HOST_INLINE void float32_store(void *to, floats_t value) {
  memcpy(to, &value, sizeof value);
}

HOST_INLINE floats_t float16_load(const void *from) {
  halves_t halves;
  memcpy(&halves, from, sizeof halves);
  return from_float16(halves);
}

HOST_INLINE void float16_store(void *to, floats_t value) {
  halves_t halves = to_float16(value);
  memcpy(to, &halves, sizeof halves);
}

HOST_INLINE floats_t float8_e5m2_load(const void *from) {
  return from_float16(load_bytes(from) << 8);
}

/* The power of two after its largest number becomes float16's infinity. */
HOST_INLINE void float8_e5m2_store(void *to, floats_t value) {
  const precision_t precision = {2, POWER_OF_TWO(-14), POWER_OF_TWO(16), DEFAULT_NAN};
  store_bytes(to, to_float16(rounded(value, precision)) >> 8);
}

/* Its NaN stands where 480 would be, and gets float16's highest exponent bit. */
HOST_INLINE floats_t float8_e4m3_load(const void *from) {
  halves_t bits = load_bytes(from), magnitude = (bits & 0x7f) << 7;
  halves_t nan = (magnitude + (1 << 7)) & 0x4000;
  return from_float16((bits & 0x80) << 8 | magnitude | nan) * 0x1p8f;
}

HOST_INLINE void float8_e4m3_store(void *to, floats_t value) {
  const precision_t precision = {3, POWER_OF_TWO(-6), 0x43e00000, 0x43f00000}; /* 448, 480 */
  halves_t bits = to_float16(rounded(value, precision) * 0x1p-8f);
  store_bytes(to, (bits >> 8 & 0x80) | (bits >> 7 & 0x7f));
}

/* ---- loops ----------------------------------------------------------------------------------*/

/* LANES elements of an array to floats and back. */
typedef struct format {
  size_t bytes; /* of an element */
  floats_t (*load)(const void *from);
  void (*store)(void *to, floats_t value);
} format_t;

static const format_t float32 = {4, float32_load, float32_store};
static const format_t float16 = {2, float16_load, float16_store};
static const format_t float8_e4m3 = {1, float8_e4m3_load, float8_e4m3_store};
static const format_t float8_e5m2 = {1, float8_e5m2_load, float8_e5m2_store};

/* The last elements, fewer than LANES, go through vectors of their own. */
typedef struct rest {
  _Alignas(floats_t) unsigned char bytes[sizeof(floats_t)];
} rest_t;

HOST_INLINE floats_t load_rest(format_t format, const void *from, size_t count) {
  rest_t rest = {{0}};
  memcpy(rest.bytes, from, count * format.bytes);
  return format.load(rest.bytes);
}

HOST_INLINE void store_rest(format_t format, void *to, floats_t value, size_t count) {
  rest_t rest;
  format.store(rest.bytes, value);
  memcpy(to, rest.bytes, count * format.bytes);
}

HOST_INLINE void combine(format_t out, void *dst, format_t in, const void *left, format_t next,
                         const void *right, size_t count, operation_t op) {
  const char *as = left, *bs = right;
  char *to = dst;
  size_t i = 0;
  for (; i + LANES <= count; i += LANES) {
    out.store(to + i * out.bytes, op(in.load(as + i * in.bytes), next.load(bs + i * next.bytes)));
  }
  if (i == count) return;
  floats_t a = load_rest(in, as + i * in.bytes, count - i);
  floats_t b = load_rest(next, bs + i * next.bytes, count - i);
  store_rest(out, to + i * out.bytes, op(a, b), count - i);
}

/* Every element with the one value b. */
HOST_INLINE void apply(format_t format, void *dst, const void *src, size_t count, floats_t b,
                       operation_t op) {
  const char *from = src;
  char *to = dst;
  size_t i = 0, bytes = format.bytes;
  for (; i + LANES <= count; i += LANES) {
    format.store(to + i * bytes, op(format.load(from + i * bytes), b));
  }
  if (i == count) return;
  floats_t a = load_rest(format, from + i * bytes, count - i);
  store_rest(format, to + i * bytes, op(a, b), count - i);
}

/* In every lane; a zero that is taken away changes no sign. */
HOST_INLINE floats_t spread(float value) {
  return value - (floats_t){0};
}

#define NARROW_KERNELS(prefix, type)                                                              \
  HOST_INLINE void prefix##_pair(void *dst, bool to_running, const void *left, bool from_running, \
                                 const void *right, size_t count, operation_t op) {               \
    combine(to_running ? float32 : prefix, dst, from_running ? float32 : prefix, left, prefix,    \
            right, count, op);                                                                    \
  }                                                                                               \
  HOST_OWN_LOOPS(prefix##_sum, prefix##_pair, sum)                                                \
  HOST_OWN_LOOPS(prefix##_product, prefix##_pair, product)                                        \
  HOST_OWN_LOOPS(prefix##_max, prefix##_pair, max)                                                \
  HOST_OWN_LOOPS(prefix##_min, prefix##_pair, min)                                                \
  static void prefix##_scale(void *dst, const void *src, size_t count, const void *scalar) {      \
    floats_t factor = spread(load_rest(prefix, scalar, 1)[0]);                                    \
    apply(prefix, dst, src, count, factor, product);                                              \
  }                                                                                               \
  static void prefix##_divide(void *buffer, size_t count, int divisor) {                          \
    apply(prefix, buffer, buffer, count, spread((float)divisor), quotient);                       \
  }                                                                                               \
  HOST_KERNELS(prefix, type, float, HOST_OWN_STEPS)

NARROW_KERNELS(float16, uint16_t);
NARROW_KERNELS(float8_e4m3, uint8_t);
NARROW_KERNELS(float8_e5m2, uint8_t);
