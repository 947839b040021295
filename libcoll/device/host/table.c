/*
 * One device table, over the loops of one instruction set; compiled as often as they are. A
 * reduction of many sources goes block by block through a running result that stays in the first
 * cache, so that memory is read once and written once whatever the number of sources. A destination
 * that is streamed is made block by block as well, then sent from the cache: one streaming loop
 * serves every type and operation.
 */
#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "device/host/host.h"
#include "device/host/kernels.h"
#include "device/host/stream.h"

#define BLOCK_BYTES 4096
#define ISA_TEXT_OF(isa) #isa
#define ISA_TEXT(isa) ISA_TEXT_OF(isa)
#define ISA_NAME ISA_TEXT(HOST_ISA)

static const host_kernels_t *const elements[COLL_DTYPE_COUNT] = {
    [COLL_INT8] = &HOST_NAME(host_int8),
    [COLL_UINT8] = &HOST_NAME(host_uint8),
    [COLL_INT32] = &HOST_NAME(host_int32),
    [COLL_UINT32] = &HOST_NAME(host_uint32),
    [COLL_INT64] = &HOST_NAME(host_int64),
    [COLL_UINT64] = &HOST_NAME(host_uint64),
    [COLL_FLOAT16] = &HOST_NAME(host_float16),
    [COLL_FLOAT32] = &HOST_NAME(host_float32),
    [COLL_FLOAT64] = &HOST_NAME(host_float64),
    [COLL_BFLOAT16] = &HOST_NAME(host_bfloat16),
    [COLL_FLOAT8_E4M3] = &HOST_NAME(host_float8_e4m3),
    [COLL_FLOAT8_E5M2] = &HOST_NAME(host_float8_e5m2),
};

static const host_kernels_t *kernels_of(coll_dtype_t dtype) {
  assert((unsigned)dtype < COLL_DTYPE_COUNT);
  return elements[dtype];
}

static size_t smaller(size_t a, size_t b) {
  return a < b ? a : b;
}

/* ---- streaming ------------------------------------------------------------------------------*/

/* Bytes from p to the next cache line. */
static size_t to_line(const void *p) {
  return (size_t)(-(uintptr_t)p % STREAM_LINE);
}

/* Whole lines of dst are streamed, what is around them is stored as usual. */
static void stream_bytes(void *dst, const void *src, size_t bytes) {
  size_t first = smaller(to_line(dst), bytes), i = first;
  memcpy(dst, src, first);
  for (; i + STREAM_LINE <= bytes; i += STREAM_LINE) {
    stream_line((char *)dst + i, (const char *)src + i);
  }
  memcpy((char *)dst + i, (const char *)src + i, bytes - i);
}

static void stream_copy(void *dst, const void *src, size_t bytes) {
  stream_bytes(dst, src, bytes);
  stream_end();
}

static bool streams(size_t bytes) {
  return STREAM_AVAILABLE && host_stream_pays(bytes, ISA_NAME, stream_copy);
}

/* ---- copy and reduce ------------------------------------------------------------------------*/

static coll_status_t copy(void *dst, const void *src, size_t bytes) {
  if (bytes == 0 || dst == src) return COLL_OK;
  if (streams(bytes)) {
    stream_copy(dst, src, bytes);
  } else {
    memcpy(dst, src, bytes);
  }
  return COLL_OK;
}

typedef struct reduction {
  const host_kernels_t *kernels;
  const host_pair_t *pair; /* by step */
  void *const *dsts;
  int dst_count;
  const void *const *sources;
  int source_count;               /* at least 2 */
  bool streamed[DEVICE_DSTS_MAX]; /* which of the destinations */
  bool any_streamed;
} reduction_t;

/* Elements first to first + count of the result to out, at most a block of more than two sources.
 * out may be a source's memory: it is written when that part of every source has been read. */
static void reduce_part(const reduction_t *r, size_t first, size_t count, void *out) {
  size_t offset = first * r->kernels->bytes;
  const char *left = (const char *)r->sources[0] + offset;
  const char *right = (const char *)r->sources[1] + offset;
  if (r->source_count == 2) {
    r->pair[HOST_ONLY](out, left, right, count);
    return;
  }
  _Alignas(64) unsigned char running[BLOCK_BYTES];
  r->pair[HOST_FIRST](running, left, right, count);
  int last = r->source_count - 1;
  for (int k = 2; k < last; k++) {
    r->pair[HOST_NEXT](running, running, (const char *)r->sources[k] + offset, count);
  }
  r->pair[HOST_LAST](out, running, (const char *)r->sources[last] + offset, count);
}

/* The result goes to the first destination and is copied from there while it is in the cache, or
 * waits beside it to be streamed. */
static void reduce_parts(const reduction_t *r, size_t count) {
  _Alignas(64) char result[BLOCK_BYTES];
  size_t bytes = r->kernels->bytes;
  bool in_one_go = r->source_count == 2 && r->dst_count == 1 && !r->any_streamed;
  size_t step = in_one_go ? count : BLOCK_BYTES / r->kernels->running_bytes;
  for (size_t first = 0; first < count; first += step) {
    size_t part = smaller(step, count - first), offset = first * bytes;
    char *from = r->any_streamed ? result : (char *)r->dsts[0] + offset;
    reduce_part(r, first, part, from);
    for (int d = 0; d < r->dst_count; d++) {
      char *dst = (char *)r->dsts[d] + offset;
      if (r->streamed[d]) {
        stream_bytes(dst, from, part * bytes);
      } else if (dst != from) {
        memcpy(dst, from, part * bytes);
      }
    }
  }
  if (r->any_streamed) stream_end();
}

/* A destination that is a source as well has just been read: it is in the cache, and to store to it
 * there costs no more. */
static void choose_streamed(reduction_t *r) {
  for (int d = 0; d < r->dst_count; d++) {
    r->streamed[d] = true;
    for (int k = 0; k < r->source_count; k++) {
      if (r->sources[k] == r->dsts[d]) r->streamed[d] = false;
    }
    r->any_streamed |= r->streamed[d];
  }
}

static coll_status_t reduce(void *const dsts[], int dst_count, const void *const sources[],
                            int source_count, size_t count, coll_dtype_t dtype, coll_op_t op) {
  assert(source_count >= 1 && dst_count >= 1 && dst_count <= DEVICE_DSTS_MAX);
  assert((unsigned)op < COLL_OP_BUILTIN_COUNT);
  const host_kernels_t *kernels = kernels_of(dtype);
  size_t bytes = count * kernels->bytes;
  if (count == 0) return COLL_OK;
  if (source_count == 1) {
    for (int d = 0; d < dst_count; d++) copy(dsts[d], sources[0], bytes);
    return COLL_OK;
  }
  reduction_t r = {.kernels = kernels,
                   .pair = kernels->pair[op == COLL_AVG ? COLL_SUM : op],
                   .dsts = dsts,
                   .dst_count = dst_count,
                   .sources = sources,
                   .source_count = source_count};
  if (streams(bytes)) choose_streamed(&r);
  reduce_parts(&r, count);
  return COLL_OK;
}

static coll_status_t scale(void *dst, const void *src, size_t count, coll_dtype_t dtype,
                           const void *scalar) {
  const host_kernels_t *kernels = kernels_of(dtype);
  uint64_t aligned; /* the scalar, wherever it lay */
  memcpy(&aligned, scalar, kernels->bytes);
  kernels->scale(dst, src, count, &aligned);
  return COLL_OK;
}

static coll_status_t divide(void *buffer, size_t count, coll_dtype_t dtype, int divisor) {
  assert(divisor >= 1);
  kernels_of(dtype)->divide(buffer, count, divisor);
  return COLL_OK;
}

const device_ops_t HOST_NAME(device_host) = {
    .name = "host, " ISA_NAME,
    .copy = copy,
    .reduce = reduce,
    .scale = scale,
    .divide = divide,
};
