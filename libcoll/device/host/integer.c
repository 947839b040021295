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

/* Operands narrower than int are promoted to int, which does not hold the product of two uint16_t;
 * the factor 1u makes it unsigned. */
#define INTEGER_KERNELS(prefix, element_t, word_t, wide)      \
  VECTOR_KIND(prefix, element_t)                              \
  OPERATIONS(prefix, word_t)                                  \
  VECTOR_TEMPLATE(prefix)                                     \
  VECTOR_FORMAT(prefix)                                       \
  VECTOR_FOLDS(prefix, element_t, prefix)                     \
  VECTOR_SCALE(prefix, element_t, 1u * (word_t)s * (word_t)a) \
  VECTOR_DIVIDE(prefix, element_t, wide, (wide)a / d)         \
  HOST_KERNELS(prefix, element_t)

INTEGER_KERNELS(int8, int8_t, uint8_t, int);
INTEGER_KERNELS(uint8, uint8_t, uint8_t, int);
INTEGER_KERNELS(int16, int16_t, uint16_t, int);
INTEGER_KERNELS(uint16, uint16_t, uint16_t, int);
INTEGER_KERNELS(int32, int32_t, uint32_t, int32_t);
INTEGER_KERNELS(uint32, uint32_t, uint32_t, uint32_t);
INTEGER_KERNELS(int64, int64_t, uint64_t, int64_t);
INTEGER_KERNELS(uint64, uint64_t, uint64_t, uint64_t);
