/*
 * What a block does with memory: copy, reduce, scale, divide. Every thread takes every n-th vector
 * of 16 bytes where all operands are equally aligned, else every n-th element; results do not
 * depend on it. A reduction keeps its operands in registers until the result is stored.
 */
#ifndef DEVICE_CUDA_COMPUTE_H
#define DEVICE_CUDA_COMPUTE_H

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

/* Defines the loops of a type. `width` is 1, or the elements of a vector: a constant wherever these
 * functions are inlined. */
#define GPU_LOOPS(prefix)                                                                         \
  enum { prefix##_width = GPU_VECTOR_BYTES / sizeof(prefix##_element_t) };                        \
  typedef struct prefix##_pack {                                                                  \
    prefix##_wide_t at[prefix##_width];                                                           \
  } prefix##_pack_t;                                                                              \
                                                                                                  \
  GPU_FUNCTION prefix##_pack_t prefix##_unpack(gpu_vector_t vector, int width) {                  \
    prefix##_pack_t pack = {{0}};                                                                 \
    prefix##_element_t elements[prefix##_width];                                                  \
    memcpy(elements, &vector, sizeof elements);                                                   \
    for (int i = 0; i < width; i++) pack.at[i] = prefix##_decode(elements[i]);                    \
    return pack;                                                                                  \
  }                                                                                               \
                                                                                                  \
  GPU_FUNCTION prefix##_pack_t prefix##_load(const char *from, int width) {                       \
    prefix##_pack_t pack = {{0}};                                                                 \
    if (width == 1) {                                                                             \
      pack.at[0] = prefix##_decode(GPU_LOAD(prefix##_element_t, from));                           \
      return pack;                                                                                \
    }                                                                                             \
    return prefix##_unpack(gpu_vector_load(from), width);                                         \
  }                                                                                               \
                                                                                                  \
  GPU_FUNCTION void prefix##_store(char *to, const prefix##_pack_t *pack, int width) {            \
    if (width == 1) {                                                                             \
      GPU_STORE(prefix##_element_t, to, prefix##_encode(prefix##_result(pack->at[0])));           \
      return;                                                                                     \
    }                                                                                             \
    prefix##_element_t elements[prefix##_width];                                                  \
    gpu_vector_t vector;                                                                          \
    for (int i = 0; i < width; i++) elements[i] = prefix##_encode(prefix##_result(pack->at[i]));  \
    memcpy(&vector, elements, sizeof vector);                                                     \
    gpu_vector_store(to, vector);                                                                 \
  }                                                                                               \
                                                                                                  \
  GPU_FUNCTION prefix##_pack_t prefix##_both(int op, const prefix##_pack_t *a,                    \
                                             const prefix##_pack_t *b, int width) {               \
    prefix##_pack_t pack = {{0}};                                                                 \
    for (int i = 0; i < width; i++) pack.at[i] = prefix##_combine(op, a->at[i], b->at[i]);        \
    return pack;                                                                                  \
  }                                                                                               \
                                                                                                  \
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
  /* Stores the result over `count` operands. */                                                  \
  GPU_FUNCTION void prefix##_finish(int op, char *to, prefix##_pack_t *pack, int count,           \
                                    int width) {                                                  \
    if (op == COLL_AVG && prefix##_averages) {                                                    \
      for (int i = 0; i < width; i++) pack->at[i] = prefix##_divide(pack->at[i], count);          \
    }                                                                                             \
    prefix##_store(to, pack, width);                                                              \
  }                                                                                               \
                                                                                                  \
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
  /* Two operands, several vectors at once. Returns the thread's first vector that is left. */    \
  GPU_FUNCTION size_t prefix##_pairs(int op, char *dst, const char *const from[], size_t start,   \
                                     size_t steps, prefix##_wide_t weight) {                      \
    const size_t apart = gpu_threads() * (size_t)GPU_VECTOR_BYTES;                                \
    const char *a = from[0] + start, *b = from[1] + start;                                        \
    size_t i = gpu_thread();                                                                      \
    for (; i + (GPU_PAIRS_UNROLLED - 1) * gpu_threads() < steps;                                  \
         i += GPU_PAIRS_UNROLLED * gpu_threads()) {                                               \
      gpu_vector_t left[GPU_PAIRS_UNROLLED], right[GPU_PAIRS_UNROLLED];                           \
      size_t at = i * GPU_VECTOR_BYTES;                                                           \
      for (int k = 0; k < GPU_PAIRS_UNROLLED; k++) {                                              \
        left[k] = gpu_vector_load(a + at + (size_t)k * apart);                                    \
        right[k] = gpu_vector_load(b + at + (size_t)k * apart);                                   \
      }                                                                                           \
      for (int k = 0; k < GPU_PAIRS_UNROLLED; k++) {                                              \
        prefix##_pack_t one = prefix##_unpack(left[k], prefix##_width);                           \
        prefix##_pack_t other = prefix##_unpack(right[k], prefix##_width);                        \
        prefix##_weigh(op, &one, weight, prefix##_width);                                         \
        prefix##_weigh(op, &other, weight, prefix##_width);                                       \
        one = prefix##_both(op, &one, &other, prefix##_width);                                    \
        prefix##_finish(op, dst + start + at + (size_t)k * apart, &one, 2, prefix##_width);       \
      }                                                                                           \
    }                                                                                             \
    return i;                                                                                     \
  }                                                                                               \
                                                                                                  \
  /* `steps` packs from byte `start` of all operands on. */                                       \
  GPU_FUNCTION void prefix##_fold(int op, char *dst, const char *const from[], int count,         \
                                  size_t start, size_t steps, int width) {                        \
    const prefix##_wide_t weight = prefix##_weight(count);                                        \
    size_t i = gpu_thread();                                                                      \
    if (width > 1 && count == 2) i = prefix##_pairs(op, dst, from, start, steps, weight);         \
    for (; i < steps; i += gpu_threads()) {                                                       \
      size_t at = start + i * (size_t)width * sizeof(prefix##_element_t);                         \
      prefix##_pack_t pack = count <= 4 ? prefix##_few(op, from, count, at, weight, width)        \
                                        : prefix##_tree(op, from, count, at, weight, width);      \
      prefix##_finish(op, dst + at, &pack, count, width);                                         \
    }                                                                                             \
  }                                                                                               \
                                                                                                  \
  /* The middle in vectors, where it can be. The operation is a constant of each loop. */         \
  GPU_FUNCTION void prefix##_vectors(int op, char *dst, const char *const from[], int count,      \
                                     size_t start, size_t steps) {                                \
    switch (op) {                                                                                 \
      case COLL_PROD:                                                                             \
        prefix##_fold(COLL_PROD, dst, from, count, start, steps, prefix##_width);                 \
        return;                                                                                   \
      case COLL_MAX:                                                                              \
        prefix##_fold(COLL_MAX, dst, from, count, start, steps, prefix##_width);                  \
        return;                                                                                   \
      case COLL_MIN:                                                                              \
        prefix##_fold(COLL_MIN, dst, from, count, start, steps, prefix##_width);                  \
        return;                                                                                   \
      case COLL_SUM:                                                                              \
        prefix##_fold(COLL_SUM, dst, from, count, start, steps, prefix##_width);                  \
        return;                                                                                   \
      case COLL_AVG:                                                                              \
        prefix##_fold(prefix##_averages ? COLL_AVG : COLL_SUM, dst, from, count, start, steps,    \
                      prefix##_width);                                                            \
        return;                                                                                   \
      default: prefix##_fold(op, dst, from, count, start, steps, prefix##_width); return;         \
    }                                                                                             \
  }                                                                                               \
                                                                                                  \
  GPU_LONG_FUNCTION void prefix##_reduce(int op, char *dst, const char *const from[], int count,  \
                                         size_t elements) {                                       \
    const size_t size = sizeof(prefix##_element_t), bytes = elements * size;                      \
    bool aligned = gpu_equally_aligned(dst, from, count);                                         \
    size_t head = aligned ? gpu_to_multiple(dst, GPU_VECTOR_BYTES, bytes) : bytes;                \
    size_t vectors = (bytes - head) / GPU_VECTOR_BYTES, done = head + vectors * GPU_VECTOR_BYTES; \
    prefix##_fold(op, dst, from, count, 0, head / size, 1);                                       \
    prefix##_vectors(op, dst, from, count, head, vectors);                                        \
    prefix##_fold(op, dst, from, count, done, (bytes - done) / size, 1);                          \
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

GPU_LOOPS(gpu_int8)
GPU_LOOPS(gpu_uint8)
GPU_LOOPS(gpu_int16)
GPU_LOOPS(gpu_uint16)
GPU_LOOPS(gpu_int32)
GPU_LOOPS(gpu_uint32)
GPU_LOOPS(gpu_int64)
GPU_LOOPS(gpu_uint64)
GPU_LOOPS(gpu_float32)
GPU_LOOPS(gpu_float64)
GPU_LOOPS(gpu_float16)
GPU_LOOPS(gpu_bfloat16)
GPU_LOOPS(gpu_float8_e4m3)
GPU_LOOPS(gpu_float8_e5m2)

#define GPU_EACH_DTYPE(dtype, function, ...)                               \
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

/* dst = the canonical expression (plan.h) over 1 to GPU_OPERANDS_MAX sources; AVG averages floats.
 * dst may equal any source, and does not overlap one otherwise. */
GPU_FUNCTION void gpu_reduce(int dtype, int op, char *dst, const char *const sources[], int count,
                             size_t elements, size_t element_bytes) {
  if (count == 1) {
    gpu_copy(dst, sources[0], elements * element_bytes);
    return;
  }
  GPU_EACH_DTYPE(dtype, reduce, op, dst, sources, count, elements)
}

/* dst = *scalar * src, where scalar is of type dtype. dst may equal src. */
GPU_FUNCTION void gpu_scale(int dtype, char *dst, const char *src, size_t elements,
                            const uint64_t *scalar){
    GPU_EACH_DTYPE(dtype, scale_all, dst, src, elements, scalar)}

/* Turns sums of `operands` operands into averages, as divide of device/ops.h. */
GPU_FUNCTION void gpu_divide(int dtype, char *buffer, size_t elements, int operands) {
  GPU_EACH_DTYPE(dtype, divide_all, buffer, elements, operands)
}

#endif
