/*
 * The device_host table: buffers in this machine's memory, computed on by the calling thread. A
 * reduction of many sources goes block by block through an accumulator that stays in the first
 * cache, so that memory is read once and written once whatever the number of sources.
 */
#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "device/host/kernels.h"
#include "device/host/narrow.h"
#include "device/ops.h"

#define BLOCK_BYTES 4096
#define BLOCK_FLOATS (BLOCK_BYTES / sizeof(float))

/* An element type is computed with as it is, or as float32 between two conversions. */
typedef struct element {
  const host_kernels_t *kernels;
  const host_narrow_t *narrow; /* NULL: as it is */
} element_t;

static const element_t elements[COLL_DTYPE_COUNT] = {
    [COLL_INT8] = {&host_int8, NULL},
    [COLL_UINT8] = {&host_uint8, NULL},
    [COLL_INT32] = {&host_int32, NULL},
    [COLL_UINT32] = {&host_uint32, NULL},
    [COLL_INT64] = {&host_int64, NULL},
    [COLL_UINT64] = {&host_uint64, NULL},
    [COLL_FLOAT16] = {&host_float32, &host_float16},
    [COLL_FLOAT32] = {&host_float32, NULL},
    [COLL_FLOAT64] = {&host_float64, NULL},
    [COLL_BFLOAT16] = {&host_float32, &host_bfloat16},
    [COLL_FLOAT8_E4M3] = {&host_float32, &host_float8_e4m3},
    [COLL_FLOAT8_E5M2] = {&host_float32, &host_float8_e5m2},
};

static const element_t *element_of(coll_dtype_t dtype) {
  assert((unsigned)dtype < COLL_DTYPE_COUNT);
  return &elements[dtype];
}

static size_t smaller(size_t a, size_t b) {
  return a < b ? a : b;
}

static coll_status_t host_copy(void *dst, const void *src, size_t bytes) {
  if (bytes > 0 && dst != src) memcpy(dst, src, bytes);
  return COLL_OK;
}

/* dst may be any source: a block of it is written when that block of every source has been read. */
static void reduce_wide(void *dst, const void *const sources[], int source_count, size_t count,
                        const host_kernels_t *kernels, host_pair_t pair) {
  if (source_count == 2) {
    pair(dst, sources[0], sources[1], count);
    return;
  }
  _Alignas(64) unsigned char sum[BLOCK_BYTES];
  size_t step = BLOCK_BYTES / kernels->bytes;
  for (size_t first = 0; first < count; first += step) {
    size_t block = smaller(step, count - first), offset = first * kernels->bytes;
    const void *left = (const char *)sources[0] + offset;
    for (int k = 1; k < source_count; k++) {
      void *out = k == source_count - 1 ? (char *)dst + offset : (void *)sum;
      pair(out, left, (const char *)sources[k] + offset, block);
      left = sum;
    }
  }
}

static void reduce_narrow(void *dst, const void *const sources[], int source_count, size_t count,
                          const host_narrow_t *narrow, host_pair_t pair) {
  _Alignas(64) float sum[BLOCK_FLOATS], next[BLOCK_FLOATS];
  for (size_t first = 0; first < count; first += BLOCK_FLOATS) {
    size_t block = smaller(BLOCK_FLOATS, count - first), offset = first * narrow->bytes;
    narrow->decode(sum, (const char *)sources[0] + offset, block);
    for (int k = 1; k < source_count; k++) {
      narrow->decode(next, (const char *)sources[k] + offset, block);
      pair(sum, sum, next, block);
    }
    narrow->encode((char *)dst + offset, sum, block);
  }
}

static coll_status_t host_reduce(void *dst, const void *const sources[], int source_count,
                                 size_t count, coll_dtype_t dtype, coll_op_t op) {
  assert(source_count >= 1 && (unsigned)op < COLL_OP_BUILTIN_COUNT);
  if (count == 0) return COLL_OK;
  const element_t *element = element_of(dtype);
  size_t bytes = element->narrow != NULL ? element->narrow->bytes : element->kernels->bytes;
  if (source_count == 1) return host_copy(dst, sources[0], count * bytes);
  host_pair_t pair = element->kernels->pair[op == COLL_AVG ? COLL_SUM : op];
  if (element->narrow != NULL) {
    reduce_narrow(dst, sources, source_count, count, element->narrow, pair);
  } else {
    reduce_wide(dst, sources, source_count, count, element->kernels, pair);
  }
  return COLL_OK;
}

static coll_status_t host_scale(void *dst, const void *src, size_t count, coll_dtype_t dtype,
                                const void *scalar) {
  const element_t *element = element_of(dtype);
  const host_narrow_t *narrow = element->narrow;
  uint64_t aligned; /* the scalar, wherever it lay */
  memcpy(&aligned, scalar, narrow != NULL ? narrow->bytes : element->kernels->bytes);
  if (narrow == NULL) {
    element->kernels->scale(dst, src, count, &aligned);
    return COLL_OK;
  }
  _Alignas(64) float values[BLOCK_FLOATS];
  float factor;
  narrow->decode(&factor, &aligned, 1);
  for (size_t first = 0; first < count; first += BLOCK_FLOATS) {
    size_t block = smaller(BLOCK_FLOATS, count - first), offset = first * narrow->bytes;
    narrow->decode(values, (const char *)src + offset, block);
    element->kernels->scale(values, values, block, &factor);
    narrow->encode((char *)dst + offset, values, block);
  }
  return COLL_OK;
}

static coll_status_t host_divide(void *buffer, size_t count, coll_dtype_t dtype, int divisor) {
  assert(divisor >= 1);
  const element_t *element = element_of(dtype);
  const host_narrow_t *narrow = element->narrow;
  if (narrow == NULL) {
    element->kernels->divide(buffer, count, divisor);
    return COLL_OK;
  }
  _Alignas(64) float values[BLOCK_FLOATS];
  for (size_t first = 0; first < count; first += BLOCK_FLOATS) {
    size_t block = smaller(BLOCK_FLOATS, count - first);
    char *at = (char *)buffer + first * narrow->bytes;
    narrow->decode(values, at, block);
    element->kernels->divide(values, block, divisor);
    narrow->encode(at, values, block);
  }
  return COLL_OK;
}

const device_ops_t device_host = {
    .name = "host",
    .copy = host_copy,
    .reduce = host_reduce,
    .scale = host_scale,
    .divide = host_divide,
};
