/*
 * Kernels of the integer types. Sums and products are computed in the unsigned type of the same
 * width, where wrapping is defined, and converted back to two's complement.
 */
#include "device/host/kernels.h"
#include "device/host/vector.h"

#define OPERATIONS(prefix, word_t)                                                           \
  typedef VECTOR_OF(word_t) prefix##_word_t;                                                 \
  BASE_INLINE prefix##_vector_t prefix##_canonical(prefix##_vector_t a) {                    \
    return a;                                                                                \
  }                                                                                          \
  BASE_INLINE prefix##_vector_t prefix##_sum(prefix##_vector_t a, prefix##_vector_t b) {     \
    return (prefix##_vector_t)((prefix##_word_t)a + (prefix##_word_t)b);                     \
  }                                                                                          \
  BASE_INLINE prefix##_vector_t prefix##_product(prefix##_vector_t a, prefix##_vector_t b) { \
    return (prefix##_vector_t)((prefix##_word_t)a * (prefix##_word_t)b);                     \
  }                                                                                          \
  BASE_INLINE prefix##_vector_t prefix##_max(prefix##_vector_t a, prefix##_vector_t b) {     \
    return VECTOR_CHOSEN(prefix##_vector_t, a > b, a, b);                                    \
  }                                                                                          \
  BASE_INLINE prefix##_vector_t prefix##_min(prefix##_vector_t a, prefix##_vector_t b) {     \
    return VECTOR_CHOSEN(prefix##_vector_t, a < b, a, b);                                    \
  }

/* Bitwise operations are the same for every width, so all types share their loops. */
VECTOR_KIND(bits, uint64_t)
BASE_INLINE bits_vector_t bits_canonical(bits_vector_t a) {
  return a;
}
BASE_INLINE bits_vector_t bits_and(bits_vector_t a, bits_vector_t b) {
  return a & b;
}
BASE_INLINE bits_vector_t bits_or(bits_vector_t a, bits_vector_t b) {
  return a | b;
}
BASE_INLINE bits_vector_t bits_xor(bits_vector_t a, bits_vector_t b) {
  return a ^ b;
}
VECTOR_TEMPLATE(bits)
VECTOR_FORMAT(bits)

/* As host_fold_t, with `bytes` bytes of every source. */
#define BITS_FOLD(op)                                                                      \
  BASE_APART static void bits_##op##_fold(void *dst, const void *const sources[],          \
                                          int source_count, size_t offset, size_t bytes) { \
    bits_fold(bits_format, bits_##op, dst, sources, source_count, offset, bytes);          \
  }
BITS_FOLD(and)
BITS_FOLD(or)
BITS_FOLD(xor)

#define BITWISE_FOLD(prefix, element_t, op)                                                  \
  static void prefix##_##op##_fold(void *dst, const void *const sources[], int source_count, \
                                   size_t offset, size_t count) {                            \
    bits_##op##_fold(dst, sources, source_count, offset, count * sizeof(element_t));         \
  }

/* Sums and products of a signed and an unsigned type are the same bits. */
#define SHARED_FOLD(prefix, signed_prefix, op)                                               \
  static void prefix##_##op##_fold(void *dst, const void *const sources[], int source_count, \
                                   size_t offset, size_t count) {                            \
    signed_prefix##_##op##_fold(dst, sources, source_count, offset, count);                  \
  }

/* Operands narrower than int are promoted to int, which does not hold the product of two uint16_t;
 * the factor 1u makes it unsigned. */
#define INTEGER_KERNELS(prefix, element_t, word_t, wide)        \
  VECTOR_FOLD(prefix, element_t, prefix, max)                   \
  VECTOR_FOLD(prefix, element_t, prefix, min)                   \
  BITWISE_FOLD(prefix, element_t, and)                          \
  BITWISE_FOLD(prefix, element_t, or)                           \
  BITWISE_FOLD(prefix, element_t, xor)                          \
  VECTOR_SCALE(prefix, element_t, 1u * (word_t)s * (word_t)a)   \
  VECTOR_DIVIDE(prefix, element_t, wide, operands, (wide)a / d) \
  HOST_KERNELS(prefix, element_t, HOST_INTEGER_FOLDS, prefix##_divide)

#define INTEGER_VECTORS(prefix, element_t, word_t) \
  VECTOR_KIND(prefix, element_t)                   \
  OPERATIONS(prefix, word_t)                       \
  VECTOR_TEMPLATE(prefix)                          \
  VECTOR_FORMAT(prefix)

#define SIGNED_KERNELS(prefix, element_t, word_t, wide) \
  INTEGER_VECTORS(prefix, element_t, word_t)            \
  VECTOR_FOLD(prefix, element_t, prefix, sum)           \
  VECTOR_FOLD(prefix, element_t, prefix, product)       \
  INTEGER_KERNELS(prefix, element_t, word_t, wide)

#define UNSIGNED_KERNELS(prefix, signed_prefix, word_t, wide) \
  INTEGER_VECTORS(prefix, word_t, word_t)                     \
  SHARED_FOLD(prefix, signed_prefix, sum)                     \
  SHARED_FOLD(prefix, signed_prefix, product)                 \
  INTEGER_KERNELS(prefix, word_t, word_t, wide)

SIGNED_KERNELS(int8, int8_t, uint8_t, int);
UNSIGNED_KERNELS(uint8, int8, uint8_t, int);
SIGNED_KERNELS(int16, int16_t, uint16_t, int);
UNSIGNED_KERNELS(uint16, int16, uint16_t, int);
SIGNED_KERNELS(int32, int32_t, uint32_t, int32_t);
UNSIGNED_KERNELS(uint32, int32, uint32_t, uint32_t);
SIGNED_KERNELS(int64, int64_t, uint64_t, int64_t);
UNSIGNED_KERNELS(uint64, int64, uint64_t, uint64_t);
