/*
 * Kernels of the narrow floats, as formats of float32's vectors. Where the processor converts
 * float16, float8 is converted through it: e5m2 is its upper byte, and e4m3 has the same exponents
 * scaled by 2^-8. Encoding a float8 first rounds the float32 to float8's precision, so that the
 * following steps are exact. The portable formats convert element by element; tests compare the
 * others with them.
 */
#include "device/host/narrow.h"

#include "device/host/kernels.h"
#include "device/host/real.h"

typedef float32_vector_t floats_t;
typedef float32_word_t words_t;
typedef float32_pair_t pair_t;

enum { LANES = VECTOR_BYTES / sizeof(float) };

/* ---- bfloat16 -------------------------------------------------------------------------------*/

/* A bfloat16 is the upper half of a float32. Elements are processed two at a time, as one 32-bit
 * word: either half becomes a float32 in place, by a shift or a mask, without widening, narrowing
 * or shuffling. Which of the two comes first depends on the byte order, but both are processed
 * alike. */
#define UPPER 0xffff0000u

BASE_INLINE pair_t bfloat16_load(const void *from) {
  words_t words;
  memcpy(&words, from, sizeof words);
  return (pair_t){(floats_t)(words << 16), (floats_t)(words & UPPER)};
}

#if VECTOR_BYTES == 64
/* A NaN result comes from a bfloat16, or is the processor's default NaN: its lower half is zero, so
 * rounding keeps it a NaN, and the store replaces the NaNs of both vectors at once. */
BASE_INLINE pair_t bfloat16_result(pair_t pair) {
  return pair;
}

/* The nearest bfloat16, ties to even, is the upper half of this. */
BASE_INLINE __m512i rounded_to_upper(floats_t value) {
  __m512i bits = (__m512i)value;
  __mmask16 odd = _mm512_test_epi32_mask(bits, _mm512_set1_epi32(0x10000));
  __m512i half = _mm512_mask_blend_epi32(odd, _mm512_set1_epi32(0x7fff), _mm512_set1_epi32(0x8000));
  return _mm512_add_epi32(bits, half);
}

/* Interleaves the upper halves: those of the second vector (indices 32 and up) go above those of
 * the first. */
BASE_INLINE __m512i upper_halves(__m512i first, __m512i second) {
  const words_t ones = (words_t){0} + 0x00210001;
  const words_t twos = {0x00000000, 0x00020002, 0x00040004, 0x00060006, 0x00080008, 0x000a000a,
                        0x000c000c, 0x000e000e, 0x00100010, 0x00120012, 0x00140014, 0x00160016,
                        0x00180018, 0x001a001a, 0x001c001c, 0x001e001e};
  return _mm512_permutex2var_epi16(first, (__m512i)(ones + twos), second);
}

BASE_INLINE __m512i narrowed(floats_t first, floats_t second) {
  __m512i halves = upper_halves(rounded_to_upper(first), rounded_to_upper(second));
  __m512i magnitude = _mm512_and_si512(halves, _mm512_set1_epi16(0x7fff));
  __mmask32 nan = _mm512_cmpgt_epu16_mask(magnitude, _mm512_set1_epi16(0x7f80));
  return _mm512_mask_mov_epi16(halves, nan, _mm512_set1_epi16(0x7fc0));
}

#if defined(__AVX512BF16__)
#define NAN_OR_DENORMAL 0xa1 /* VFPCLASSPS: quiet NaN, denormal, signaling NaN */

/* Not inlined, so that its constants take no registers from callers that do not need it. */
BASE_COLD static __m512i narrowed_with_care(floats_t first, floats_t second) {
  return narrowed(first, second);
}

/* The processor's own conversion rounds in the same way, but treats denormals as zeros and keeps
 * the signs of NaNs. (In a thread that has set MXCSR.DAZ, denormals are stored as zeros.) It places
 * the second vector's halves after the first's; the permutation interleaves them. */
BASE_INLINE void bfloat16_store(void *to, pair_t pair) {
  const words_t ones = (words_t){0} + 0x00100000;
  const words_t twos = {0x00000000, 0x00010001, 0x00020002, 0x00030003, 0x00040004, 0x00050005,
                        0x00060006, 0x00070007, 0x00080008, 0x00090009, 0x000a000a, 0x000b000b,
                        0x000c000c, 0x000d000d, 0x000e000e, 0x000f000f};
  __m512 first = (__m512)pair.first, second = (__m512)pair.second;
  __mmask16 odd_first = _mm512_fpclass_ps_mask(first, NAN_OR_DENORMAL);
  __mmask16 odd_second = _mm512_fpclass_ps_mask(second, NAN_OR_DENORMAL);
  if (__builtin_expect(!_kortestz_mask16_u8(odd_first, odd_second), false)) {
    _mm512_storeu_si512(to, narrowed_with_care(pair.first, pair.second));
    return;
  }
  __m512i halves = (__m512i)_mm512_cvtne2ps_pbh(second, first);
  _mm512_storeu_si512(to, _mm512_permutexvar_epi16((__m512i)(ones + twos), halves));
}
#else
BASE_INLINE void bfloat16_store(void *to, pair_t pair) {
  _mm512_storeu_si512(to, narrowed(pair.first, pair.second));
}
#endif
#else
#define bfloat16_result float32_result

/* The nearest bfloat16, ties to even, is the upper half of this. The default NaN is unchanged. */
BASE_INLINE words_t rounded_to_upper(floats_t value) {
  words_t bits = (words_t)value;
  return bits + 0x7fff + (bits >> 16 & 1);
}

BASE_INLINE void bfloat16_store(void *to, pair_t pair) {
  words_t words = rounded_to_upper(pair.first) >> 16 | (rounded_to_upper(pair.second) & UPPER);
  memcpy(to, &words, sizeof words);
}

#endif

static const float32_format_t bfloat16_format = {
    VECTOR_BYTES, bfloat16_load, bfloat16_result, bfloat16_store, false, {0}, {0}};

/* ---- float16 and float8, element by element ------------------------------------------------*/

#ifndef HOST_VECTORS

/* Functions of their own: inlined into every loop they would be most of the library. */
#define ELEMENTWISE(prefix, element_t)                                  \
  BASE_APART static pair_t prefix##_load(const void *from) {            \
    element_t elements[2 * LANES];                                      \
    memcpy(elements, from, sizeof elements);                            \
    pair_t pair;                                                        \
    for (int i = 0; i < LANES; i++) {                                   \
      pair.first[i] = prefix##_decode(elements[i]);                     \
      pair.second[i] = prefix##_decode(elements[LANES + i]);            \
    }                                                                   \
    return pair;                                                        \
  }                                                                     \
  BASE_APART static void prefix##_store(void *to, pair_t pair) {        \
    element_t elements[2 * LANES];                                      \
    for (int i = 0; i < LANES; i++) {                                   \
      elements[i] = (element_t)prefix##_encode(pair.first[i]);          \
      elements[LANES + i] = (element_t)prefix##_encode(pair.second[i]); \
    }                                                                   \
    memcpy(to, elements, sizeof elements);                              \
  }

ELEMENTWISE(float16, uint16_t)
ELEMENTWISE(float8_e4m3, uint8_t)
ELEMENTWISE(float8_e5m2, uint8_t)

#else

/* ---- what the processor converts ------------------------------------------------------------*/

typedef VECTOR_OF(uint16_t) halves_t;
typedef uint8_t bytes_t __attribute__((vector_size(VECTOR_BYTES / 2)));

/* A pair of float vectors corresponds to one vector of 16-bit halves. Conversion to float16 rounds
 * to nearest, ties to even. Bytes are converted to and from the lower halves. */
#if defined(__AVX512F__)
#define NEAREST (_MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)

BASE_INLINE pair_t from_float16(halves_t halves) {
  __m512i all = (__m512i)halves;
  return (pair_t){(floats_t)_mm512_cvtph_ps(_mm512_castsi512_si256(all)),
                  (floats_t)_mm512_cvtph_ps(_mm512_extracti64x4_epi64(all, 1))};
}
BASE_INLINE halves_t to_float16(pair_t pair) {
  __m256i first = _mm512_cvtps_ph((__m512)pair.first, NEAREST);
  __m256i second = _mm512_cvtps_ph((__m512)pair.second, NEAREST);
  return (halves_t)_mm512_inserti64x4(_mm512_castsi256_si512(first), second, 1);
}
BASE_INLINE halves_t from_bytes(bytes_t bytes) {
  return (halves_t)_mm512_cvtepu8_epi16((__m256i)bytes);
}
BASE_INLINE bytes_t to_bytes(halves_t halves) {
  return (bytes_t)_mm512_cvtepi16_epi8((__m512i)halves);
}
#elif defined(__AVX2__)
#define NEAREST (_MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)

BASE_INLINE pair_t from_float16(halves_t halves) {
  __m256i all = (__m256i)halves;
  return (pair_t){(floats_t)_mm256_cvtph_ps(_mm256_castsi256_si128(all)),
                  (floats_t)_mm256_cvtph_ps(_mm256_extracti128_si256(all, 1))};
}
BASE_INLINE halves_t to_float16(pair_t pair) {
  __m128i first = _mm256_cvtps_ph((__m256)pair.first, NEAREST);
  __m128i second = _mm256_cvtps_ph((__m256)pair.second, NEAREST);
  return (halves_t)_mm256_inserti128_si256(_mm256_castsi128_si256(first), second, 1);
}
BASE_INLINE halves_t from_bytes(bytes_t bytes) {
  return (halves_t)_mm256_cvtepu8_epi16((__m128i)bytes);
}
BASE_INLINE bytes_t to_bytes(halves_t halves) {
  __m256i low = (__m256i)(halves & 0xff);
  return (bytes_t)_mm_packus_epi16(_mm256_castsi256_si128(low), _mm256_extracti128_si256(low, 1));
}
#else
typedef __fp16 float16s_t __attribute__((vector_size(VECTOR_BYTES / 2)));

BASE_INLINE pair_t from_float16(halves_t halves) {
  float16s_t parts[2];
  memcpy(parts, &halves, sizeof halves);
  return (pair_t){__builtin_convertvector(parts[0], floats_t),
                  __builtin_convertvector(parts[1], floats_t)};
}
BASE_INLINE halves_t to_float16(pair_t pair) {
  float16s_t parts[2] = {__builtin_convertvector(pair.first, float16s_t),
                         __builtin_convertvector(pair.second, float16s_t)};
  halves_t halves;
  memcpy(&halves, parts, sizeof halves);
  return halves;
}
BASE_INLINE halves_t from_bytes(bytes_t bytes) {
  return __builtin_convertvector(bytes, halves_t);
}
BASE_INLINE bytes_t to_bytes(halves_t halves) {
  return __builtin_convertvector(halves, bytes_t);
}
#endif

BASE_INLINE pair_t float16_load(const void *from) {
  halves_t halves;
  memcpy(&halves, from, sizeof halves);
  return from_float16(halves);
}

BASE_INLINE void float16_store(void *to, pair_t pair) {
  halves_t halves = to_float16(pair);
  memcpy(to, &halves, sizeof halves);
}

/* ---- float8 ---------------------------------------------------------------------------------*/

#define FRACTION_BITS 23
#define EXPONENT 0x7f800000
#define POWER_OF_TWO(exponent) ((127 + (exponent)) << FRACTION_BITS)

typedef VECTOR_OF(int32_t) signed_t;

/* Fraction bits and bounds of a float8; the bounds are float32 bit patterns. */
typedef struct precision {
  int fraction;
  int least_normal; /* smallest normal number; smaller numbers have fewer bits */
  int max;          /* result of overflow */
  int nan;          /* result of NaN */
} precision_t;

/* Rounds to the nearest value of that precision, ties to even: adds and subtracts a power of two
 * whose last bit has the value of the last bit to keep. */
BASE_INLINE floats_t rounded(floats_t value, precision_t precision) {
  signed_t bits = (signed_t)value, magnitude = bits & INT32_MAX, none = {0};
  magnitude = VECTOR_CHOSEN(signed_t, magnitude < precision.max, magnitude, none + precision.max);
  signed_t power = magnitude & EXPONENT;
  power =
      VECTOR_CHOSEN(signed_t, power > precision.least_normal, power, none + precision.least_normal);
  floats_t anchor = (floats_t)(power + ((FRACTION_BITS - precision.fraction) << FRACTION_BITS));
  signed_t nearest = (signed_t)(((floats_t)magnitude + anchor) - anchor);
  nearest = VECTOR_CHOSEN(signed_t, (signed_t)(value == value), nearest, none + precision.nan);
  return (floats_t)(nearest | (bits & INT32_MIN));
}

BASE_INLINE halves_t load_bytes(const void *from) {
  bytes_t bytes;
  memcpy(&bytes, from, sizeof bytes);
  return from_bytes(bytes);
}

BASE_INLINE void store_bytes(void *to, halves_t halves) {
  bytes_t bytes = to_bytes(halves);
  memcpy(to, &bytes, sizeof bytes);
}

BASE_INLINE pair_t float8_e5m2_load(const void *from) {
  return from_float16(load_bytes(from) << 8);
}

/* 2^16, the power of two after the largest number, becomes float16's infinity. */
BASE_INLINE void float8_e5m2_store(void *to, pair_t pair) {
  const precision_t precision = {2, POWER_OF_TWO(-14), POWER_OF_TWO(16), 0x7fc00000};
  pair = (pair_t){rounded(pair.first, precision), rounded(pair.second, precision)};
  store_bytes(to, to_float16(pair) >> 8);
}

/* e4m3's NaN has the pattern that would be 480; it gets float16's highest exponent bit. */
BASE_INLINE pair_t float8_e4m3_load(const void *from) {
  halves_t bits = load_bytes(from), magnitude = (bits & 0x7f) << 7;
  halves_t nan = (magnitude + (1 << 7)) & 0x4000;
  pair_t pair = from_float16((bits & 0x80) << 8 | magnitude | nan);
  return (pair_t){pair.first * 0x1p8f, pair.second * 0x1p8f};
}

BASE_INLINE void float8_e4m3_store(void *to, pair_t pair) {
  const precision_t precision = {3, POWER_OF_TWO(-6), 0x43e00000, 0x43f00000}; /* 448, 480 */
  pair =
      (pair_t){rounded(pair.first, precision) * 0x1p-8f, rounded(pair.second, precision) * 0x1p-8f};
  halves_t bits = to_float16(pair);
  store_bytes(to, (bits >> 8 & 0x80) | (bits >> 7 & 0x7f));
}

#endif

static const float32_format_t float16_format = {
    VECTOR_BYTES, float16_load, float32_result, float16_store, false, {0}, {0}};
static const float32_format_t float8_e4m3_format = {
    VECTOR_BYTES / 2, float8_e4m3_load, float32_result, float8_e4m3_store, false, {0}, {0}};
static const float32_format_t float8_e5m2_format = {
    VECTOR_BYTES / 2, float8_e5m2_load, float32_result, float8_e5m2_store, false, {0}, {0}};

/* ---- tables ---------------------------------------------------------------------------------*/

/* Multiplies every element by b, with the conversions of a reduction. */
BASE_INLINE void multiply(float32_format_t format, void *dst, const void *src, size_t bytes,
                          float b) {
  floats_t all = b - (floats_t){0}; /* in every lane; subtracting zero keeps a zero's sign */
  pair_t value = {all, all};
  size_t done = 0;
  for (; done + format.bytes <= bytes; done += format.bytes) {
    pair_t a = format.load((const char *)src + done);
    format.store((char *)dst + done, format.result(float32_combined(float32_product, a, value)));
  }
  char rest[sizeof(pair_t)] = {0};
  memcpy(rest, (const char *)src + done, bytes - done);
  format.store(rest, format.result(float32_combined(float32_product, format.load(rest), value)));
  memcpy((char *)dst + done, rest, bytes - done);
}

#define NARROW_KERNELS(prefix, element_t)                                                    \
  VECTOR_FOLDS(prefix, element_t, float32)                                                   \
  VECTOR_AVERAGE(prefix, element_t, float32)                                                 \
  static void prefix##_scale(void *dst, const void *src, size_t count, const void *scalar) { \
    float factor = prefix##_decode(*(const element_t *)scalar);                              \
    multiply(prefix##_format, dst, src, count * sizeof(element_t), factor);                  \
  }                                                                                          \
  HOST_KERNELS(prefix, element_t, HOST_FLOAT_FOLDS, NULL)

NARROW_KERNELS(bfloat16, uint16_t);
NARROW_KERNELS(float16, uint16_t);
NARROW_KERNELS(float8_e4m3, uint8_t);
NARROW_KERNELS(float8_e5m2, uint8_t);
