/*
 * Vectors of the instruction set's width, and the one loop that reduces them. They use the
 * compilers' vector extension: arithmetic and comparisons are written as for scalars, and the
 * compiler emits the instruction set's instructions. C has no templates, so macros instantiate the
 * code per element type.
 */
#ifndef DEVICE_HOST_VECTOR_H
#define DEVICE_HOST_VECTOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(HOST_VECTORS) && defined(__x86_64__)
#include <immintrin.h>
#endif

#include "base/inline.h"
#include "device/average.h"

#if defined(HOST_VECTORS) && defined(__AVX512F__)
#define VECTOR_BYTES 64
#elif defined(HOST_VECTORS) && defined(__AVX2__)
#define VECTOR_BYTES 32
#else
#define VECTOR_BYTES 16
#endif

#define VECTOR_OF(element_t) element_t __attribute__((vector_size(VECTOR_BYTES)))

/* Tells the compiler that iterations are independent. That holds because buffers are equal or
 * disjoint, which a compiler cannot know: without it, dst == src would take the scalar loop. */
#define VECTOR_LOOP _Pragma("omp simd")

/* `yes` where the mask of a comparison is all ones, `no` where it is all zeros. Intrinsics, because
 * some compilers need four instructions for the generic form. */
#if VECTOR_BYTES == 64
#define VECTOR_CHOSEN(vector_t, mask, yes, no) \
  ((vector_t)_mm512_ternarylogic_epi64((__m512i)(mask), (__m512i)(yes), (__m512i)(no), 0xca))
#elif VECTOR_BYTES == 32
#define VECTOR_CHOSEN(vector_t, mask, yes, no) \
  ((vector_t)_mm256_blendv_epi8((__m256i)(no), (__m256i)(yes), (__m256i)(mask)))
#else
typedef VECTOR_OF(uint64_t) vector_bits_t;
#define VECTOR_CHOSEN(vector_t, mask, yes, no)                 \
  ((vector_t)(((vector_bits_t)(mask) & (vector_bits_t)(yes)) | \
              (~(vector_bits_t)(mask) & (vector_bits_t)(no))))
#endif

/* Defines a kind of vector: its type, and its format, which describes how a pair of vectors of
 * `bytes` bytes in total is stored in memory (as is, or narrower) and how a result is finished
 * before the store. Where it `averages`, every operand is multiplied by `weight` before the
 * reduction, and the result divided by `divisor`. Two vectors at a time keep the execution units
 * busy while one waits for the other. */
#define VECTOR_KIND(prefix, element_t)                                                         \
  typedef VECTOR_OF(element_t) prefix##_vector_t;                                              \
  typedef prefix##_vector_t (*prefix##_operation_t)(prefix##_vector_t a, prefix##_vector_t b); \
  typedef struct prefix##_pair {                                                               \
    prefix##_vector_t first, second;                                                           \
  } prefix##_pair_t;                                                                           \
  typedef struct prefix##_format {                                                             \
    size_t bytes;                                                                              \
    prefix##_pair_t (*load)(const void *from);                                                 \
    prefix##_pair_t (*result)(prefix##_pair_t pair);                                           \
    void (*store)(void *to, prefix##_pair_t pair);                                             \
    bool averages;                                                                             \
    prefix##_vector_t weight, divisor;                                                         \
  } prefix##_format_t;                                                                         \
                                                                                               \
  BASE_INLINE prefix##_pair_t prefix##_load(const void *from) {                                \
    prefix##_pair_t pair;                                                                      \
    memcpy(&pair.first, from, VECTOR_BYTES);                                                   \
    memcpy(&pair.second, (const char *)from + VECTOR_BYTES, VECTOR_BYTES);                     \
    return pair;                                                                               \
  }                                                                                            \
  BASE_INLINE void prefix##_store(void *to, prefix##_pair_t pair) {                            \
    memcpy(to, &pair.first, VECTOR_BYTES);                                                     \
    memcpy((char *)to + VECTOR_BYTES, &pair.second, VECTOR_BYTES);                             \
  }

/* The last bytes of a buffer, fewer than a pair of vectors, in memory of a pair's size. */
typedef struct vector_rest {
  _Alignas(VECTOR_BYTES) char bytes[2 * VECTOR_BYTES];
} vector_rest_t;

#if VECTOR_BYTES == 64
/* Masked loads and full stores, so that the following vector load is forwarded from the store
 * buffer. */
BASE_INLINE void vector_rest_load(vector_rest_t *rest, const void *from, size_t bytes) {
  size_t first = bytes < 64 ? bytes : 64;
  __mmask64 low = _bzhi_u64(UINT64_MAX, (unsigned)first);
  __mmask64 high = _bzhi_u64(UINT64_MAX, (unsigned)(bytes - first));
  _mm512_store_si512(rest->bytes, _mm512_maskz_loadu_epi8(low, from));
  _mm512_store_si512(rest->bytes + 64, _mm512_maskz_loadu_epi8(high, (const char *)from + 64));
}

BASE_INLINE void vector_rest_store(void *to, const vector_rest_t *rest, size_t bytes) {
  size_t first = bytes < 64 ? bytes : 64;
  __mmask64 low = _bzhi_u64(UINT64_MAX, (unsigned)first);
  __mmask64 high = _bzhi_u64(UINT64_MAX, (unsigned)(bytes - first));
  _mm512_mask_storeu_epi8(to, low, _mm512_load_si512(rest->bytes));
  _mm512_mask_storeu_epi8((char *)to + 64, high, _mm512_load_si512(rest->bytes + 64));
}
#else
BASE_INLINE void vector_rest_load(vector_rest_t *rest, const void *from, size_t bytes) {
  memcpy(rest->bytes, from, bytes);
}

BASE_INLINE void vector_rest_store(void *to, const vector_rest_t *rest, size_t bytes) {
  memcpy(to, rest->bytes, bytes);
}
#endif

/* Entries of the stack below: results of 4, 8, … DEVICE_SOURCES_MAX sources, and one of fewer. */
#define VECTOR_RUNS_MAX 12

/* Defines the loop for a kind of vector whose operations, and prefix_canonical for finished
 * results, have been defined. The last elements, fewer than a pair, go through a vector_rest_t.
 * Sources are combined by the canonical expression (plan.h): groups of four in registers, and above
 * them a binary counter that combines two results of equal size. */
#define VECTOR_TEMPLATE(prefix)                                                                 \
  BASE_INLINE prefix##_pair_t prefix##_combined(prefix##_operation_t op, prefix##_pair_t a,     \
                                                prefix##_pair_t b) {                            \
    return (prefix##_pair_t){op(a.first, b.first), op(a.second, b.second)};                     \
  }                                                                                             \
  BASE_INLINE prefix##_pair_t prefix##_result(prefix##_pair_t pair) {                           \
    return (prefix##_pair_t){prefix##_canonical(pair.first), prefix##_canonical(pair.second)};  \
  }                                                                                             \
                                                                                                \
  /* Loads a pair of `bytes` bytes, fewer than format.bytes only at the end of a buffer. */     \
  BASE_INLINE prefix##_pair_t prefix##_fetch(prefix##_format_t format, const char *from,        \
                                             size_t bytes) {                                    \
    vector_rest_t rest = {0};                                                                   \
    bool is_full = bytes == format.bytes;                                                       \
    if (!is_full) vector_rest_load(&rest, from, bytes);                                         \
    prefix##_pair_t pair = format.load(is_full ? from : rest.bytes);                            \
    if (format.averages)                                                                        \
      pair = (prefix##_pair_t){pair.first * format.weight, pair.second * format.weight};        \
    return pair;                                                                                \
  }                                                                                             \
                                                                                                \
  BASE_INLINE void prefix##_finish(prefix##_format_t format, void *to, prefix##_pair_t pair) {  \
    if (format.averages) {                                                                      \
      pair = (prefix##_pair_t){pair.first / format.divisor, pair.second / format.divisor};      \
    }                                                                                           \
    format.store(to, format.result(pair));                                                      \
  }                                                                                             \
                                                                                                \
  /* Combines 1 to 4 sources. */                                                                \
  BASE_INLINE prefix##_pair_t prefix##_few(prefix##_format_t format, prefix##_operation_t op,   \
                                           const char *const from[], int count, size_t at,      \
                                           size_t bytes) {                                      \
    prefix##_pair_t left = prefix##_fetch(format, from[0] + at, bytes);                         \
    if (count > 1)                                                                              \
      left = prefix##_combined(op, left, prefix##_fetch(format, from[1] + at, bytes));          \
    if (count > 2) {                                                                            \
      prefix##_pair_t right = prefix##_fetch(format, from[2] + at, bytes);                      \
      if (count > 3) {                                                                          \
        right = prefix##_combined(op, right, prefix##_fetch(format, from[3] + at, bytes));      \
      }                                                                                         \
      left = prefix##_combined(op, left, right);                                                \
    }                                                                                           \
    return left;                                                                                \
  }                                                                                             \
                                                                                                \
  BASE_INLINE prefix##_pair_t prefix##_tree(prefix##_format_t format, prefix##_operation_t op,  \
                                            const char *const from[], int count, size_t at,     \
                                            size_t bytes) {                                     \
    prefix##_pair_t runs[VECTOR_RUNS_MAX];                                                      \
    int depth = 0, next = 0;                                                                    \
    for (; next + 4 <= count; next += 4) {                                                      \
      prefix##_pair_t run = prefix##_few(format, op, from + next, 4, at, bytes);                \
      for (int before = next / 4; before % 2 == 1; before /= 2) {                               \
        run = prefix##_combined(op, runs[--depth], run);                                        \
      }                                                                                         \
      runs[depth++] = run;                                                                      \
    }                                                                                           \
    prefix##_pair_t pair = next < count                                                         \
                               ? prefix##_few(format, op, from + next, count - next, at, bytes) \
                               : runs[--depth];                                                 \
    while (depth > 0) pair = prefix##_combined(op, runs[--depth], pair);                        \
    return pair;                                                                                \
  }                                                                                             \
                                                                                                \
  /* The pairs of vectors that are full. Returns their bytes. */                                \
  BASE_INLINE size_t prefix##_fold_pairs(prefix##_format_t format, prefix##_operation_t op,     \
                                         void *dst, const char *const from[], int source_count, \
                                         size_t offset, size_t bytes) {                         \
    size_t done = 0;                                                                            \
    for (; done + format.bytes <= bytes; done += format.bytes) {                                \
      prefix##_pair_t pair =                                                                    \
          prefix##_tree(format, op, from, source_count, offset + done, format.bytes);           \
      prefix##_finish(format, (char *)dst + done, pair);                                        \
    }                                                                                           \
    return done;                                                                                \
  }                                                                                             \
                                                                                                \
  /* As host_fold_t, with `bytes` bytes of every source. Frequent source counts have loops of   \
   * their own, in which the loop over sources is unrolled. The last bytes share one code. */   \
  BASE_INLINE void prefix##_fold(prefix##_format_t format, prefix##_operation_t op, void *dst,  \
                                 const void *const sources[], int source_count, size_t offset,  \
                                 size_t bytes) {                                                \
    const char *const *from = (const char *const *)sources;                                     \
    size_t done;                                                                                \
    switch (source_count) {                                                                     \
      case 2: done = prefix##_fold_pairs(format, op, dst, from, 2, offset, bytes); break;       \
      case 4: done = prefix##_fold_pairs(format, op, dst, from, 4, offset, bytes); break;       \
      case 8: done = prefix##_fold_pairs(format, op, dst, from, 8, offset, bytes); break;       \
      default: done = prefix##_fold_pairs(format, op, dst, from, source_count, offset, bytes);  \
    }                                                                                           \
    if (done < bytes) {                                                                         \
      vector_rest_t rest = {0};                                                                 \
      prefix##_pair_t pair =                                                                    \
          prefix##_tree(format, op, from, source_count, offset + done, bytes - done);           \
      prefix##_finish(format, &rest, pair);                                                     \
      vector_rest_store((char *)dst + done, &rest, bytes - done);                               \
    }                                                                                           \
  }

/* Not inlined where another type shares it. */
#define VECTOR_FOLD(prefix, element_t, kind, op)                                               \
  BASE_APART static void prefix##_##op##_fold(void *dst, const void *const sources[],          \
                                              int source_count, size_t offset, size_t count) { \
    kind##_fold(prefix##_format, kind##_##op, dst, sources, source_count, offset,              \
                count * sizeof(element_t));                                                    \
  }

#define VECTOR_FOLDS(prefix, element_t, kind)   \
  VECTOR_FOLD(prefix, element_t, kind, sum)     \
  VECTOR_FOLD(prefix, element_t, kind, product) \
  VECTOR_FOLD(prefix, element_t, kind, max)     \
  VECTOR_FOLD(prefix, element_t, kind, min)

/* The average of floats (device/ops.h). */
#define VECTOR_AVERAGE(prefix, element_t, kind)                                               \
  static void prefix##_average_fold(void *dst, const void *const sources[], int source_count, \
                                    size_t offset, size_t count) {                            \
    kind##_format_t format = prefix##_format;                                                 \
    device_average_t average = device_average_of(source_count);                               \
    format.averages = true;                                                                   \
    format.weight += average.weight;                                                          \
    format.divisor += average.divisor;                                                        \
    kind##_fold(format, kind##_sum, dst, sources, source_count, offset,                       \
                count * sizeof(element_t));                                                   \
  }

/* Defines the format of elements that are computed with as they are stored. */
#define VECTOR_FORMAT(prefix)                        \
  static const prefix##_format_t prefix##_format = { \
      sizeof(prefix##_pair_t), prefix##_load, prefix##_result, prefix##_store, false, {0}, {0}};

/* Scaling and dividing by one number, written for single elements; compilers vectorise these loops.
 * The division is computed in `wide`, which holds every value of the type and of the divisor, which
 * is an expression of `operands`. */
#define VECTOR_SCALE(prefix, element_t, expression)                                          \
  static void prefix##_scale(void *dst, const void *src, size_t count, const void *scalar) { \
    element_t *out = dst;                                                                    \
    const element_t *as = src;                                                               \
    element_t s = *(const element_t *)scalar;                                                \
    VECTOR_LOOP for (size_t i = 0; i < count; i++) {                                         \
      element_t a = as[i];                                                                   \
      out[i] = (element_t)(expression);                                                      \
    }                                                                                        \
  }
#define VECTOR_DIVIDE(prefix, element_t, wide, divisor, expression)       \
  static void prefix##_divide(void *buffer, size_t count, int operands) { \
    element_t *out = buffer;                                              \
    wide d = (wide)(divisor);                                             \
    VECTOR_LOOP for (size_t i = 0; i < count; i++) {                      \
      element_t a = out[i];                                               \
      out[i] = (element_t)(expression);                                   \
    }                                                                     \
  }

#endif
