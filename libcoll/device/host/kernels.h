/*
 * The inner loops of the host device, one table per element type. A reduction of many sources runs
 * over two at a time; the running result of a narrow float is a float32, so that it is decoded as
 * it is read and rounded only as it is stored, in the same pass.
 *
 * The files that include this are compiled once for every instruction set that the library knows,
 * with HOST_ISA its name: one source, several tables, the same bits.
 */
#ifndef DEVICE_HOST_KERNELS_H
#define DEVICE_HOST_KERNELS_H

#include <coll.h>

#include <stdbool.h>
#include <stddef.h>

/* host_int8 becomes host_int8_avx2: what is compiled several times needs several names. */
#define HOST_JOIN_NAMES(name, isa) name##_##isa
#define HOST_JOIN(name, isa) HOST_JOIN_NAMES(name, isa)
#define HOST_NAME(name) HOST_JOIN(name, HOST_ISA)

/* COLL_SUM, COLL_PROD, COLL_MAX and COLL_MIN, in the public order; COLL_AVG sums. */
#define HOST_OPS 4

/* What stands on the two sides of a pair loop and what comes out: elements, or the running result
 * of a reduction. The four differ for narrow floats alone, and only they know how a running result
 * is laid out; it is aligned to a cache line, and all steps of a reduction have one count. */
typedef enum host_step {
  HOST_ONLY,  /* element = element op element */
  HOST_FIRST, /* running = element op element */
  HOST_NEXT,  /* running = running op element */
  HOST_LAST,  /* element = running op element */
  HOST_STEPS
} host_step_t;

/* dst[i] = left[i] op right[i]. dst may equal left or right and overlaps them in no other way. */
typedef void (*host_pair_t)(void *dst, const void *left, const void *right, size_t count);

/* dst[i] = *scalar * src[i]. dst may equal src. */
typedef void (*host_scale_t)(void *dst, const void *src, size_t count, const void *scalar);

/* buffer[i] = buffer[i] / divisor, divisor > 0. */
typedef void (*host_divide_t)(void *buffer, size_t count, int divisor);

typedef struct host_kernels {
  size_t bytes;         /* of an element */
  size_t running_bytes; /* of one of a running result */
  host_pair_t pair[HOST_OPS][HOST_STEPS];
  host_scale_t scale;
  host_divide_t divide;
} host_kernels_t;

extern const host_kernels_t HOST_NAME(host_int8), HOST_NAME(host_uint8), HOST_NAME(host_int32),
    HOST_NAME(host_uint32), HOST_NAME(host_int64), HOST_NAME(host_uint64), HOST_NAME(host_float16),
    HOST_NAME(host_float32), HOST_NAME(host_float64), HOST_NAME(host_bfloat16),
    HOST_NAME(host_float8_e4m3), HOST_NAME(host_float8_e5m2);

/* Says that no iteration depends on another, which holds because buffers are equal or apart, and
 * which a compiler cannot see: without it, dst == left would take the scalar loop. */
#define HOST_SIMD _Pragma("omp simd")

/* For what is a loop only once its constant arguments are known. */
#define HOST_INLINE static inline __attribute__((always_inline))

/* A pair loop over elements a and b of `type`; C has no other way to write it once. */
#define HOST_PAIR_LOOP(name, type, expression)                                     \
  static void name(void *dst, const void *left, const void *right, size_t count) { \
    type *out = dst;                                                               \
    const type *as = left, *bs = right;                                            \
    HOST_SIMD for (size_t i = 0; i < count; i++) {                                 \
      type a = as[i], b = bs[i];                                                   \
      out[i] = (type)(expression);                                                 \
    }                                                                              \
  }

/* A scale loop over elements a with the scalar s, both of `type`. */
#define HOST_SCALE_LOOP(name, type, expression)                                    \
  static void name(void *dst, const void *src, size_t count, const void *scalar) { \
    type *out = dst;                                                               \
    const type *as = src;                                                          \
    type s = *(const type *)scalar;                                                \
    HOST_SIMD for (size_t i = 0; i < count; i++) {                                 \
      type a = as[i];                                                              \
      out[i] = (type)(expression);                                                 \
    }                                                                              \
  }

/* A divide loop over elements a; the divisor d is of `wide`, which holds every value of both. */
#define HOST_DIVIDE_LOOP(name, type, wide, expression)        \
  static void name(void *buffer, size_t count, int divisor) { \
    type *out = buffer;                                       \
    wide d = (wide)divisor;                                   \
    HOST_SIMD for (size_t i = 0; i < count; i++) {            \
      type a = out[i];                                        \
      out[i] = (type)(expression);                            \
    }                                                         \
  }

/* The four steps of a type that is computed with as it is, which has one loop. */
#define HOST_SAME_STEPS(name) \
  { name##_loop, name##_loop, name##_loop, name##_loop }

/* Those of a narrow float, from an inlined pair(dst, whether dst is a running result, left, whether
 * left is, right, count, op). */
#define HOST_STEP(name, pair, to_running, from_running, op)                        \
  static void name(void *dst, const void *left, const void *right, size_t count) { \
    pair(dst, to_running, left, from_running, right, count, op);                   \
  }
#define HOST_OWN_LOOPS(name, pair, op)           \
  HOST_STEP(name##_only, pair, false, false, op) \
  HOST_STEP(name##_first, pair, true, false, op) \
  HOST_STEP(name##_next, pair, true, true, op)   \
  HOST_STEP(name##_last, pair, false, true, op)
#define HOST_OWN_STEPS(name) \
  { name##_only, name##_first, name##_next, name##_last }

/* The table of a type, from its loops. */
#define HOST_KERNELS(prefix, type, running_type, STEPS)                                    \
  const host_kernels_t HOST_NAME(host_##prefix) = {sizeof(type),                           \
                                                   sizeof(running_type),                   \
                                                   {[COLL_SUM] = STEPS(prefix##_sum),      \
                                                    [COLL_PROD] = STEPS(prefix##_product), \
                                                    [COLL_MAX] = STEPS(prefix##_max),      \
                                                    [COLL_MIN] = STEPS(prefix##_min)},     \
                                                   prefix##_scale,                         \
                                                   prefix##_divide}

#endif
