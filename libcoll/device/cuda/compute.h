/*
 * What a block does with memory: copy, reduce, scale, divide. Every thread takes every n-th vector
 * of 16 bytes where all operands are equally aligned, else every n-th element; results do not
 * depend on it. A reduction keeps its operands in registers until the result is stored.
 */
#ifndef DEVICE_CUDA_COMPUTE_H
#define DEVICE_CUDA_COMPUTE_H

#include "device/cuda/dtypes.h"
#include "device/cuda/element.h"
#include "device/cuda/run.h"

#define GPU_PAIRS_UNROLLED 4 /* vectors of each of two operands that a thread loads at once */
/* Results of groups of four operands that wait for others, at most: those of 31 of 32 groups. */
#define GPU_RUNS_MAX 5
#if GPU_OPERANDS_MAX / 4 > 1 << GPU_RUNS_MAX
#error "GPU_RUNS_MAX is too small for GPU_OPERANDS_MAX"
#endif

GPU_FUNCTION gpu_vector_t gpu_vector_load(const char *from) {
  return GPU_LOAD(gpu_vector_t, from);
}

GPU_FUNCTION void gpu_vector_store(char *to, gpu_vector_t vector) {
  GPU_STORE(gpu_vector_t, to, vector);
}

/* Bytes from `at` to the next address that is a multiple of `multiple`, a power of two; at most
 * `bytes`. */
GPU_FUNCTION size_t gpu_to_multiple(const char *at, size_t multiple, size_t bytes) {
  size_t rest = (size_t)(-(uintptr_t)at & (multiple - 1));
  return rest < bytes ? rest : bytes;
}

/* ---- copy -----------------------------------------------------------------------------------*/

#define GPU_COPY_UNROLLED 8 /* loads of a thread before its first store */

GPU_FUNCTION void gpu_copy_vectors(char *dst, const char *src, size_t vectors) {
  size_t step = gpu_threads(), i = gpu_thread();
  for (; i + (GPU_COPY_UNROLLED - 1) * step < vectors; i += GPU_COPY_UNROLLED * step) {
    gpu_vector_t loaded[GPU_COPY_UNROLLED];
    for (int k = 0; k < GPU_COPY_UNROLLED; k++) {
      loaded[k] = gpu_vector_load(src + (i + (size_t)k * step) * GPU_VECTOR_BYTES);
    }
    for (int k = 0; k < GPU_COPY_UNROLLED; k++) {
      gpu_vector_store(dst + (i + (size_t)k * step) * GPU_VECTOR_BYTES, loaded[k]);
    }
  }
  for (; i < vectors; i += step) {
    gpu_vector_store(dst + i * GPU_VECTOR_BYTES, gpu_vector_load(src + i * GPU_VECTOR_BYTES));
  }
}

#define GPU_COPY_WORDS(word_t)                                           \
  GPU_EACH(i, words) {                                                   \
    const char *from = src + i * sizeof(word_t);                         \
    GPU_STORE(word_t, dst + i * sizeof(word_t), GPU_LOAD(word_t, from)); \
  }

/* width: bytes of a word, 1 to 16; both addresses are multiples of it. */
GPU_FUNCTION void gpu_copy_words(char *dst, const char *src, size_t words, size_t width) {
  switch (width) {
    case 16: gpu_copy_vectors(dst, src, words); break;
    case 8: GPU_COPY_WORDS(uint64_t) break;
    case 4: GPU_COPY_WORDS(uint32_t) break;
    case 2: GPU_COPY_WORDS(uint16_t) break;
    default: GPU_COPY_WORDS(uint8_t) break;
  }
}

/* dst and src are equal or do not overlap. The words are the widest at which both can be aligned.
 */
GPU_LONG_FUNCTION void gpu_copy(char *dst, const char *src, size_t bytes) {
  size_t apart = ((uintptr_t)dst ^ (uintptr_t)src) | GPU_VECTOR_BYTES, width = apart & -apart;
  int shift = (width > 1) + (width > 2) + (width > 4) + (width > 8);
  size_t head = gpu_to_multiple(dst, width, bytes), words = (bytes - head) >> shift;
  size_t done = head + (words << shift);
  if (dst == src) return;
  gpu_copy_words(dst, src, head, 1);
  gpu_copy_words(dst + head, src + head, words, width);
  gpu_copy_words(dst + done, src + done, bytes - done, 1);
}

/* ---- reduce, scale, divide ------------------------------------------------------------------*/

/* Whether all addresses have the same offset from a multiple of 16. */
GPU_FUNCTION bool gpu_equally_aligned(const char *dst, const char *const sources[], int count) {
  uintptr_t apart = 0;
  for (int i = 0; i < count; i++) apart |= (uintptr_t)dst ^ (uintptr_t)sources[i];
  return apart % GPU_VECTOR_BYTES == 0;
}

/* Defines the loops of a type. What a thread computes at once is a pack: a vector of elements in
 * the type's wide type, or half a vector, as 16 elements of a byte would take too many registers.
 * `width` is 1, or the elements of a pack: a constant wherever these functions are inlined. */
#define GPU_LOOPS(prefix)                                                                         \
  enum {                                                                                          \
    prefix##_width = sizeof(prefix##_element_t) == 1 ? 8 : 16 / sizeof(prefix##_element_t),       \
    prefix##_pack_bytes = prefix##_width * sizeof(prefix##_element_t),                            \
    prefix##_packs = GPU_VECTOR_BYTES / prefix##_pack_bytes                                       \
  };                                                                                              \
  typedef struct prefix##_pack {                                                                  \
    prefix##_wide_t at[prefix##_width];                                                           \
  } prefix##_pack_t;                                                                              \
                                                                                                  \
  GPU_FUNCTION prefix##_pack_t prefix##_unpack(const prefix##_element_t elements[]) {             \
    prefix##_pack_t pack;                                                                         \
    for (int i = 0; i < prefix##_width; i++) pack.at[i] = prefix##_decode(elements[i]);           \
    return pack;                                                                                  \
  }                                                                                               \
                                                                                                  \
  GPU_FUNCTION void prefix##_pack(prefix##_element_t elements[], const prefix##_pack_t *pack) {   \
    for (int i = 0; i < prefix##_width; i++) {                                                    \
      elements[i] = prefix##_encode(prefix##_result(pack->at[i]));                                \
    }                                                                                             \
  }                                                                                               \
                                                                                                  \
  GPU_FUNCTION prefix##_pack_t prefix##_load(const char *from, int width) {                       \
    prefix##_element_t elements[prefix##_width];                                                  \
    prefix##_pack_t pack = {{0}};                                                                 \
    if (width == 1) {                                                                             \
      pack.at[0] = prefix##_decode(GPU_LOAD(prefix##_element_t, from));                           \
      return pack;                                                                                \
    }                                                                                             \
    if (prefix##_packs == 1) {                                                                    \
      gpu_vector_t vector = gpu_vector_load(from);                                                \
      memcpy(elements, &vector, sizeof elements);                                                 \
    } else {                                                                                      \
      uint64_t half = GPU_LOAD(uint64_t, from);                                                   \
      memcpy(elements, &half, sizeof elements);                                                   \
    }                                                                                             \
    return prefix##_unpack(elements);                                                             \
  }                                                                                               \
                                                                                                  \
  GPU_FUNCTION void prefix##_store(char *to, const prefix##_pack_t *pack, int width) {            \
    prefix##_element_t elements[prefix##_width];                                                  \
    if (width == 1) {                                                                             \
      GPU_STORE(prefix##_element_t, to, prefix##_encode(prefix##_result(pack->at[0])));           \
      return;                                                                                     \
    }                                                                                             \
    prefix##_pack(elements, pack);                                                                \
    if (prefix##_packs == 1) {                                                                    \
      gpu_vector_t vector;                                                                        \
      memcpy(&vector, elements, sizeof elements);                                                 \
      gpu_vector_store(to, vector);                                                               \
    } else {                                                                                      \
      uint64_t half;                                                                              \
      memcpy(&half, elements, sizeof elements);                                                   \
      GPU_STORE(uint64_t, to, half);                                                              \
    }                                                                                             \
  }                                                                                               \
  GPU_FUNCTION prefix##_pack_t prefix##_each(int op, const prefix##_pack_t *a,                    \
                                             const prefix##_pack_t *b, int width) {               \
    prefix##_pack_t pack = {{0}};                                                                 \
    for (int i = 0; i < width; i++) pack.at[i] = prefix##_combine(op, a->at[i], b->at[i]);        \
    return pack;                                                                                  \
  }                                                                                               \
                                                                                                  \
  /* The operation is a constant of each loop. */                                                 \
  GPU_FUNCTION prefix##_pack_t prefix##_both(int op, const prefix##_pack_t *a,                    \
                                             const prefix##_pack_t *b, int width) {               \
    switch (prefix##_averages && op >= COLL_BAND ? COLL_SUM : op) { /* floats have no bits */     \
      case COLL_PROD: return prefix##_each(COLL_PROD, a, b, width);                               \
      case COLL_MAX: return prefix##_each(COLL_MAX, a, b, width);                                 \
      case COLL_MIN: return prefix##_each(COLL_MIN, a, b, width);                                 \
      case COLL_BAND: return prefix##_each(COLL_BAND, a, b, width);                               \
      case COLL_BOR: return prefix##_each(COLL_BOR, a, b, width);                                 \
      case COLL_BXOR: return prefix##_each(COLL_BXOR, a, b, width);                               \
      default: return prefix##_each(COLL_SUM, a, b, width);                                       \
    }                                                                                             \
  }                                                                                               \
  /* What an operand adds to a reduction: itself; to an average, itself times `weight`. */        \
  GPU_FUNCTION void prefix##_weigh(int op, prefix##_pack_t *pack, prefix##_wide_t weight,         \
                                   int width) {                                                   \
    bool weighs = op == COLL_AVG && prefix##_averages;                                            \
    for (int i = 0; weighs && i < width; i++) pack->at[i] = prefix##_scale(weight, pack->at[i]);  \
  }                                                                                               \
                                                                                                  \
  GPU_FUNCTION prefix##_pack_t prefix##_operand(int op, const char *from, prefix##_wide_t weight, \
                                                int width) {                                      \
    prefix##_pack_t pack = prefix##_load(from, width);                                            \
    prefix##_weigh(op, &pack, weight, width);                                                     \
    return pack;                                                                                  \
  }                                                                                               \
                                                                                                  \
  /* Of the result over `count` operands: its average, if that is asked for. */                   \
  GPU_FUNCTION void prefix##_average(int op, prefix##_pack_t *pack, int count, int width) {       \
    bool divides = op == COLL_AVG && prefix##_averages;                                           \
    for (int i = 0; divides && i < width; i++) pack->at[i] = prefix##_divide(pack->at[i], count); \
  }                                                                                               \
  /* The canonical expression of 1 to 4 operands. */                                              \
  GPU_FUNCTION prefix##_pack_t prefix##_few(int op, const char *const from[], int count,          \
                                            size_t at, prefix##_wide_t weight, int width) {       \
    prefix##_pack_t left = prefix##_operand(op, from[0] + at, weight, width), right, last;        \
    if (count > 1) {                                                                              \
      right = prefix##_operand(op, from[1] + at, weight, width);                                  \
      left = prefix##_both(op, &left, &right, width);                                             \
    }                                                                                             \
    if (count > 2) {                                                                              \
      right = prefix##_operand(op, from[2] + at, weight, width);                                  \
      if (count > 3) {                                                                            \
        last = prefix##_operand(op, from[3] + at, weight, width);                                 \
        right = prefix##_both(op, &right, &last, width);                                          \
      }                                                                                           \
      left = prefix##_both(op, &left, &right, width);                                             \
    }                                                                                             \
    return left;                                                                                  \
  }                                                                                               \
                                                                                                  \
  /* Of any number: a binary counter combines results of equally many operands. */                \
  GPU_FUNCTION prefix##_pack_t prefix##_tree(int op, const char *const from[], int count,         \
                                             size_t at, prefix##_wide_t weight, int width) {      \
    prefix##_pack_t runs[GPU_RUNS_MAX], pack = {{0}};                                             \
    int depth = 0, next = 0;                                                                      \
    for (; next + 4 <= count; next += 4) {                                                        \
      pack = prefix##_few(op, from + next, 4, at, weight, width);                                 \
      for (int before = next / 4; before % 2 == 1; before /= 2) {                                 \
        depth--;                                                                                  \
        pack = prefix##_both(op, &runs[depth], &pack, width);                                     \
      }                                                                                           \
      runs[depth++] = pack;                                                                       \
    }                                                                                             \
    if (next < count) {                                                                           \
      pack = prefix##_few(op, from + next, count - next, at, weight, width);                      \
    } else {                                                                                      \
      pack = runs[--depth];                                                                       \
    }                                                                                             \
    while (depth > 0) {                                                                           \
      depth--;                                                                                    \
      pack = prefix##_both(op, &runs[depth], &pack, width);                                       \
    }                                                                                             \
    return pack;                                                                                  \
  }                                                                                               \
                                                                                                  \
  GPU_FUNCTION gpu_vector_t prefix##_pair(int op, gpu_vector_t left, gpu_vector_t right,          \
                                          prefix##_wide_t weight) {                               \
    prefix##_element_t a[prefix##_packs * prefix##_width], b[prefix##_packs * prefix##_width];    \
    memcpy(a, &left, sizeof a);                                                                   \
    memcpy(b, &right, sizeof b);                                                                  \
    for (int i = 0; i < prefix##_packs; i++) {                                                    \
      prefix##_pack_t one = prefix##_unpack(a + i * prefix##_width);                              \
      prefix##_pack_t other = prefix##_unpack(b + i * prefix##_width);                            \
      prefix##_weigh(op, &one, weight, prefix##_width);                                           \
      prefix##_weigh(op, &other, weight, prefix##_width);                                         \
      one = prefix##_both(op, &one, &other, prefix##_width);                                      \
      prefix##_average(op, &one, 2, prefix##_width);                                              \
      prefix##_pack(a + i * prefix##_width, &one);                                                \
    }                                                                                             \
    memcpy(&left, a, sizeof a);                                                                   \
    return left;                                                                                  \
  }                                                                                               \
  /* Two operands, `many` vectors at once. Returns the thread's first vector that is left. */     \
  GPU_FUNCTION size_t prefix##_pairs(int op, char *dst, const char *const from[], size_t start,   \
                                     size_t steps, prefix##_wide_t weight, int many) {            \
    const size_t apart = gpu_threads() * (size_t)GPU_VECTOR_BYTES;                                \
    const char *a = from[0] + start, *b = from[1] + start;                                        \
    size_t i = gpu_thread();                                                                      \
    for (; i + (size_t)(many - 1) * gpu_threads() < steps; i += (size_t)many * gpu_threads()) {   \
      gpu_vector_t left[GPU_PAIRS_UNROLLED], right[GPU_PAIRS_UNROLLED];                           \
      size_t at = i * GPU_VECTOR_BYTES;                                                           \
      for (int k = 0; k < many; k++) {                                                            \
        left[k] = gpu_vector_load(a + at + (size_t)k * apart);                                    \
        right[k] = gpu_vector_load(b + at + (size_t)k * apart);                                   \
      }                                                                                           \
      for (int k = 0; k < many; k++) {                                                            \
        left[k] = prefix##_pair(op, left[k], right[k], weight);                                   \
        gpu_vector_store(dst + start + at + (size_t)k * apart, left[k]);                          \
      }                                                                                           \
    }                                                                                             \
    return i;                                                                                     \
  }                                                                                               \
  GPU_FUNCTION void prefix##_fold_one(int op, char *dst, const char *const from[], int count,     \
                                      size_t at, prefix##_wide_t weight, int width) {             \
    prefix##_pack_t pack = count <= 4 ? prefix##_few(op, from, count, at, weight, width)          \
                                      : prefix##_tree(op, from, count, at, weight, width);        \
    prefix##_average(op, &pack, count, width);                                                    \
    prefix##_store(dst + at, &pack, width);                                                       \
  }                                                                                               \
                                                                                                  \
  /* `steps` vectors, or elements if width is 1, from byte `start` of all operands on; of two     \
   * operands `many` vectors at once. */                                                          \
  GPU_FUNCTION void prefix##_fold(int op, char *dst, const char *const from[], int count,         \
                                  size_t start, size_t steps, int width, int many) {              \
    const prefix##_wide_t weight = prefix##_weight(count);                                        \
    const size_t bytes = width > 1 ? (size_t)GPU_VECTOR_BYTES : sizeof(prefix##_element_t);       \
    size_t i = gpu_thread();                                                                      \
    if (width > 1 && count == 2) i = prefix##_pairs(op, dst, from, start, steps, weight, many);   \
    for (; i < steps; i += gpu_threads()) {                                                       \
      for (size_t at = 0; at < bytes; at += (size_t)width * sizeof(prefix##_element_t)) {         \
        prefix##_fold_one(op, dst, from, count, start + i * bytes + at, weight, width);           \
      }                                                                                           \
    }                                                                                             \
  }                                                                                               \
                                                                                                  \
  /* The middle in vectors, where it can be. Other operations than SUM are no constants of their  \
   * loops, and need more registers for a vector. */                                              \
  GPU_FUNCTION void prefix##_vectors(int op, char *dst, const char *const from[], int count,      \
                                     size_t start, size_t steps) {                                \
    enum { MANY = GPU_PAIRS_UNROLLED / prefix##_packs };                                          \
    int many = op == COLL_SUM ? MANY : prefix##_averages ? 1 : MANY / 2;                          \
    prefix##_fold(op, dst, from, count, start, steps, prefix##_width, many);                      \
  }                                                                                               \
  GPU_FUNCTION void prefix##_reduce(int op, char *dst, const char *const from[], int count,       \
                                    size_t elements) {                                            \
    const size_t size = sizeof(prefix##_element_t), bytes = elements * size;                      \
    bool aligned = gpu_equally_aligned(dst, from, count);                                         \
    size_t head = aligned ? gpu_to_multiple(dst, GPU_VECTOR_BYTES, bytes) : bytes;                \
    size_t vectors = (bytes - head) / GPU_VECTOR_BYTES, done = head + vectors * GPU_VECTOR_BYTES; \
    prefix##_fold(op, dst, from, count, 0, head / size, 1, 1);                                    \
    prefix##_vectors(op, dst, from, count, head, vectors);                                        \
    prefix##_fold(op, dst, from, count, done, (bytes - done) / size, 1, 1);                       \
  }                                                                                               \
                                                                                                  \
  GPU_LONG_FUNCTION void prefix##_sum(char *dst, const char *const from[], int count,             \
                                      size_t elements) {                                          \
    prefix##_reduce(COLL_SUM, dst, from, count, elements);                                        \
  }                                                                                               \
                                                                                                  \
  GPU_LONG_FUNCTION void prefix##_other(int op, char *dst, const char *const from[], int count,   \
                                        size_t elements) {                                        \
    if (op != COLL_SUM) prefix##_reduce(op, dst, from, count, elements);                          \
  }                                                                                               \
                                                                                                  \
  GPU_LONG_FUNCTION void prefix##_scale_all(char *dst, const char *src, size_t elements,          \
                                            const uint64_t *scalar) {                             \
    prefix##_element_t factor;                                                                    \
    memcpy(&factor, scalar, sizeof factor);                                                       \
    GPU_EACH(i, elements) {                                                                       \
      prefix##_pack_t pack = prefix##_load(src + i * sizeof factor, 1);                           \
      pack.at[0] = prefix##_scale(prefix##_decode(factor), pack.at[0]);                           \
      prefix##_store(dst + i * sizeof factor, &pack, 1);                                          \
    }                                                                                             \
  }                                                                                               \
                                                                                                  \
  GPU_LONG_FUNCTION void prefix##_divide_all(char *buffer, size_t elements, int operands) {       \
    GPU_EACH(i, elements) {                                                                       \
      char *at = buffer + i * sizeof(prefix##_element_t);                                         \
      prefix##_pack_t pack = prefix##_load(at, 1);                                                \
      pack.at[0] = prefix##_divide(pack.at[0], operands);                                         \
      prefix##_store(at, &pack, 1);                                                               \
    }                                                                                             \
  }

/* Calls a function of the dtype; kernels for CUDA devices have one dtype each. */
#define GPU_LOOPS_OF(dtype, number) GPU_LOOPS(gpu_##dtype)
#ifdef GPU_DTYPE
#define GPU_LOOPS_OF_ONE(dtype) GPU_LOOPS_OF(dtype, )
GPU_LOOPS_OF_ONE(GPU_DTYPE)
#define GPU_CALL(dtype, function, ...) gpu_##dtype##_##function(__VA_ARGS__);
#define GPU_CALL_ONE(dtype, ...) GPU_CALL(dtype, __VA_ARGS__)
#define GPU_OF_DTYPE(dtype, ...) GPU_CALL_ONE(GPU_DTYPE, __VA_ARGS__)
#else
GPU_DTYPES(GPU_LOOPS_OF)
#define GPU_OF_DTYPE(dtype, function, ...)                                 \
  switch (dtype) {                                                         \
    case COLL_INT8: gpu_int8_##function(__VA_ARGS__); break;               \
    case COLL_UINT8: gpu_uint8_##function(__VA_ARGS__); break;             \
    case COLL_INT16: gpu_int16_##function(__VA_ARGS__); break;             \
    case COLL_UINT16: gpu_uint16_##function(__VA_ARGS__); break;           \
    case COLL_INT32: gpu_int32_##function(__VA_ARGS__); break;             \
    case COLL_UINT32: gpu_uint32_##function(__VA_ARGS__); break;           \
    case COLL_INT64: gpu_int64_##function(__VA_ARGS__); break;             \
    case COLL_UINT64: gpu_uint64_##function(__VA_ARGS__); break;           \
    case COLL_FLOAT32: gpu_float32_##function(__VA_ARGS__); break;         \
    case COLL_FLOAT64: gpu_float64_##function(__VA_ARGS__); break;         \
    case COLL_FLOAT16: gpu_float16_##function(__VA_ARGS__); break;         \
    case COLL_BFLOAT16: gpu_bfloat16_##function(__VA_ARGS__); break;       \
    case COLL_FLOAT8_E4M3: gpu_float8_e4m3_##function(__VA_ARGS__); break; \
    case COLL_FLOAT8_E5M2: gpu_float8_e5m2_##function(__VA_ARGS__); break; \
    default: break;                                                        \
  }
#endif

/* dst = the canonical expression (plan.h) over 1 to GPU_OPERANDS_MAX sources; AVG averages floats.
 * dst may equal any source, and does not overlap one otherwise. */
GPU_FUNCTION void gpu_reduce(int dtype, int op, char *dst, const char *const sources[], int count,
                             size_t elements, size_t element_bytes) {
  if (count == 1) {
    gpu_copy(dst, sources[0], elements * element_bytes);
  } else if (gpu_ops_of(op) == GPU_OPS_SUM) {
    GPU_OF_DTYPE(dtype, sum, dst, sources, count, elements)
  } else {
    GPU_OF_DTYPE(dtype, other, op, dst, sources, count, elements)
  }
}

/* dst = *scalar * src, where scalar is of type dtype. dst may equal src. */
GPU_FUNCTION void gpu_scale(int dtype, char *dst, const char *src, size_t elements,
                            const uint64_t *scalar){
    GPU_OF_DTYPE(dtype, scale_all, dst, src, elements, scalar)}

/* Turns sums of `operands` operands into averages, as divide of device/ops.h. */
GPU_FUNCTION void gpu_divide(int dtype, char *buffer, size_t elements, int operands) {
  GPU_OF_DTYPE(dtype, divide_all, buffer, elements, operands)
}

#endif
