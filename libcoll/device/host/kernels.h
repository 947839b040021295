/*
 * Inner loops ("kernels") of the host device, one table per element type. A reduction reads all its
 * sources side by side, one vector of each at a time: the running result stays in registers, and a
 * narrow float is decoded, accumulated in float32 and rounded once in a single pass.
 *
 * Files that include this are compiled once per instruction set, with HOST_ISA as its name: one
 * source, several tables, the same bits.
 */
#ifndef DEVICE_HOST_KERNELS_H
#define DEVICE_HOST_KERNELS_H

#include <coll.h>

#include <stddef.h>

/* host_int8 becomes host_int8_avx2: each compilation needs its own symbol names. */
#define HOST_JOIN_NAMES(name, isa) name##_##isa
#define HOST_JOIN(name, isa) HOST_JOIN_NAMES(name, isa)
#define HOST_NAME(name) HOST_JOIN(name, HOST_ISA)

/* dst[i] = the canonical expression (plan.h) over sources[0..source_count-1][i] for `count`
 * elements. Sources start at byte `offset`; dst does not. dst may equal what is read, and does not
 * overlap it otherwise. */
typedef void (*host_fold_t)(void *dst, const void *const sources[], int source_count, size_t offset,
                            size_t count);

/* dst[i] = *scalar * src[i]. dst may equal src. */
typedef void (*host_scale_t)(void *dst, const void *src, size_t count, const void *scalar);

/* Divides the sums of so many operands, of floats weighted ones (device_ops_t). */
typedef void (*host_divide_t)(void *buffer, size_t count, int operands);

typedef struct host_kernels {
  size_t bytes;                            /* size of an element */
  host_fold_t fold[COLL_OP_BUILTIN_COUNT]; /* NULL: not of this type */
  host_scale_t scale;
  host_divide_t divide; /* NULL: not of this type */
} host_kernels_t;

extern const host_kernels_t HOST_NAME(host_int8), HOST_NAME(host_uint8), HOST_NAME(host_int16),
    HOST_NAME(host_uint16), HOST_NAME(host_int32), HOST_NAME(host_uint32), HOST_NAME(host_int64),
    HOST_NAME(host_uint64), HOST_NAME(host_float16), HOST_NAME(host_float32),
    HOST_NAME(host_float64), HOST_NAME(host_bfloat16), HOST_NAME(host_float8_e4m3),
    HOST_NAME(host_float8_e5m2);

/* The folds of a type are functions prefix_sum_fold and so on. */
#define HOST_FOLDS(prefix)                                             \
  [COLL_SUM] = prefix##_sum_fold, [COLL_PROD] = prefix##_product_fold, \
  [COLL_MAX] = prefix##_max_fold, [COLL_MIN] = prefix##_min_fold
#define HOST_FLOAT_FOLDS(prefix) HOST_FOLDS(prefix), [COLL_AVG] = prefix##_average_fold
#define HOST_INTEGER_FOLDS(prefix)                                                    \
  HOST_FOLDS(prefix), [COLL_BAND] = prefix##_and_fold, [COLL_BOR] = prefix##_or_fold, \
                      [COLL_BXOR] = prefix##_xor_fold

/* Defines the table of a type from its folds (one of the lists above), prefix_scale and `divide`.
 */
#define HOST_KERNELS(prefix, element_t, folds, divide) \
  const host_kernels_t HOST_NAME(host_##prefix) = {    \
      sizeof(element_t), {folds(prefix)}, prefix##_scale, divide}

#endif
