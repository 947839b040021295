/*
 * One device table, over the loops of one instruction set; compiled as often as they are. A
 * result that is streamed, or goes to several places, is made block by block in the first cache and
 * sent on from there: memory is read once, and one streaming loop serves every type and operation.
 */
#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "base/inline.h"
#include "base/move.h"
#include "device/host/host.h"
#include "device/host/kernels.h"
#include "device/host/stream.h"
#include "device/host/vector.h"

#define BLOCK_BYTES 512 /* so short that loads of the next go on while stores of one drain */
/* Short copies are the C library's, which takes vectors for them; what second caches hold is copied
 * by vectors here, where it would take string instructions; more of it by these, which from
 * STRING_BYTES on have to be written here, as some C libraries give them up. */
#define VECTORS_MIN 2048
#define VECTORS_MAX ((size_t)256 << 10)
#define STRING_BYTES ((size_t)1 << 20)
#define ISA_TEXT_OF(isa) #isa
#define ISA_TEXT(isa) ISA_TEXT_OF(isa)
#define TABLE_NAME "host, " ISA_TEXT(HOST_ISA)

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

typedef void store_t(void *dst, const void *src, size_t bytes);

/* Whole lines of dst are streamed, what is around them is stored as usual. */
static void stream_bytes(void *dst, const void *src, size_t bytes) {
  size_t first = smaller(to_line(dst), bytes), i = first;
  memcpy(dst, src, first);
  for (; i + STREAM_LINE <= bytes; i += STREAM_LINE) {
    stream_line((char *)dst + i, (const char *)src + i);
  }
  memcpy((char *)dst + i, (const char *)src + i, bytes - i);
}

static void store_bytes(void *dst, const void *src, size_t bytes) {
  memcpy(dst, src, bytes);
}

/* Behind what was streamed; a part is left to settle. */
static void end_stream(size_t bytes, size_t whole) {
  if (bytes >= whole) stream_end();
}

/* ---- copy and fetch -------------------------------------------------------------------------*/

typedef long long moved_t __attribute__((vector_size(VECTOR_BYTES), aligned(1), may_alias));

static void move_vectors(char *to, const char *from, size_t bytes) {
  size_t done = to_line(to);
  if (bytes < VECTORS_MIN) {
    memcpy(to, from, bytes);
    return;
  }
  memcpy(to, from, done);
  for (; done + 2 * VECTOR_BYTES <= bytes; done += 2 * VECTOR_BYTES) {
    moved_t first = *(const moved_t *)(from + done);
    moved_t second = *(const moved_t *)(from + done + VECTOR_BYTES);
    *(moved_t *)(to + done) = first;
    *(moved_t *)(to + done + VECTOR_BYTES) = second;
    __asm__ volatile("" : : : "memory"); /* or compilers would make a call of memcpy of it all */
  }
  memcpy(to + done, from + done, bytes - done);
}

static void move_string(char *to, const char *from, size_t bytes) {
  size_t first = to_line(to);
  memcpy(to, from, first);
  base_move_string(to + first, from + first, bytes - first);
}

static void copy_cached(void *dst, const void *src, size_t bytes, size_t whole) {
  if (bytes <= VECTORS_MAX && whole <= VECTORS_MAX) {
    move_vectors(dst, src, bytes);
  } else if (bytes < STRING_BYTES || !base_moves_strings()) {
    memcpy(dst, src, bytes);
  } else {
    move_string(dst, src, bytes);
  }
}

BASE_APART static coll_status_t copy_long(void *dst, const void *src, size_t bytes, size_t whole) {
  if (dst == src) return COLL_OK;
  if (STREAM_AVAILABLE && host_stream_pays(2 * whole, HOST_COPY)) {
    stream_bytes(dst, src, bytes);
    end_stream(bytes, whole);
  } else {
    copy_cached(dst, src, bytes, whole);
  }
  return COLL_OK;
}

static coll_status_t copy(void *dst, const void *src, size_t bytes, size_t whole) {
  if (bytes > BASE_MOVE_SHORT) return copy_long(dst, src, bytes, whole);
  base_move_short(dst, src, bytes);
  return COLL_OK;
}

/* Lines that have to come from another core: string instructions wait for few of them at a time,
 * and take a third to a half longer. What own caches cannot hold is copied all the same, as it had
 * better not be read before it is overwritten. */
static coll_status_t fetch(void *dst, const void *src, size_t bytes, size_t whole) {
  if (bytes <= BASE_MOVE_SHORT || whole >= STRING_BYTES) return copy(dst, src, bytes, whole);
  move_vectors(dst, src, bytes);
  return COLL_OK;
}

/* ---- copies to several places ---------------------------------------------------------------*/

/* How a destination is stored to where others are streamed: as usual if it is loaded again soon. */
static store_t *store_of(int dst, int kept) {
  return dst < kept ? store_bytes : stream_bytes;
}

/* Of a first block, so that the next begins where a line does. */
static size_t first_part(size_t to_first_line, size_t block) {
  return to_first_line > 0 ? to_first_line : block;
}

/* Block by block, so that memory is read once for all destinations. The first is cut so that the
 * others begin on lines of the first destination that is streamed. */
static void spread_streamed(void *const dsts[], int dst_count, int kept, const void *src,
                            size_t bytes) {
  size_t most = first_part(to_line(dsts[kept]), BLOCK_BYTES), part;
  for (size_t at = 0; at < bytes; at += part, most = BLOCK_BYTES) {
    part = smaller(most, bytes - at);
    for (int d = 0; d < dst_count; d++) {
      if (dsts[d] == src) continue;
      store_of(d, kept)((char *)dsts[d] + at, (const char *)src + at, part);
    }
  }
}

BASE_APART static void spread(void *const dsts[], int dst_count, int kept, const void *src,
                              size_t bytes, size_t whole) {
  size_t touched = whole * (size_t)(1 + dst_count);
  if (dst_count > 1 && kept < dst_count && STREAM_AVAILABLE &&
      host_stream_pays(touched, HOST_REDUCE)) {
    spread_streamed(dsts, dst_count, kept, src, bytes);
    end_stream(bytes, whole);
    return;
  }
  for (int d = 0; d < dst_count; d++) copy(dsts[d], src, bytes, d < kept ? 0 : whole);
}

/* ---- reduce ---------------------------------------------------------------------------------*/

typedef struct reduction {
  host_fold_t fold;
  void *const *dsts;
  int dst_count, kept;
  const void *const *sources;
  int source_count; /* at least 2 */
  size_t element_bytes, count;
} reduction_t;

/* Each block goes to the first destination and is copied from there while it is in the cache. */
static void reduce_in_cache(const reduction_t *r) {
  size_t step = BLOCK_BYTES / r->element_bytes;
  for (size_t first = 0; first < r->count; first += step) {
    size_t part = smaller(step, r->count - first), offset = first * r->element_bytes;
    char *result = (char *)r->dsts[0] + offset;
    r->fold(result, r->sources, r->source_count, offset, part);
    for (int d = 1; d < r->dst_count; d++) {
      if (r->dsts[d] == r->dsts[0]) continue;
      memcpy((char *)r->dsts[d] + offset, result, part * r->element_bytes);
    }
  }
}

/* A destination that is a source as well has just been read: it is in the cache, and to store to it
 * there costs no more. Returns whether any is left to stream. */
static bool choose_stores(const reduction_t *r, store_t *stores[]) {
  bool any = false;
  for (int d = 0; d < r->dst_count; d++) {
    stores[d] = store_of(d, r->kept);
    for (int k = 0; k < r->source_count; k++) {
      if (r->sources[k] == r->dsts[d]) stores[d] = store_bytes;
    }
    any = any || stores[d] == stream_bytes;
  }
  return any;
}

/* Each block is made aside. The first is cut as above. */
static void reduce_streamed(const reduction_t *r, store_t *const stores[]) {
  _Alignas(STREAM_LINE) char result[BLOCK_BYTES];
  size_t whole = BLOCK_BYTES / r->element_bytes, part;
  const void *dst = r->dsts[r->kept < r->dst_count ? r->kept : 0];
  size_t most = first_part(to_line(dst) / r->element_bytes, whole);
  for (size_t first = 0; first < r->count; first += part, most = whole) {
    part = smaller(most, r->count - first);
    size_t offset = first * r->element_bytes, bytes = part * r->element_bytes;
    r->fold(result, r->sources, r->source_count, offset, part);
    for (int d = 0; d < r->dst_count; d++) {
      stores[d]((char *)r->dsts[d] + offset, result, bytes);
    }
  }
}

BASE_APART static void reduce_large(const reduction_t *r, bool streamed, size_t whole) {
  store_t *stores[DEVICE_DSTS_MAX];
  if (streamed && choose_stores(r, stores)) {
    reduce_streamed(r, stores);
    end_stream(r->count * r->element_bytes, whole);
  } else if (r->dst_count == 1) {
    r->fold(r->dsts[0], r->sources, r->source_count, 0, r->count);
  } else {
    reduce_in_cache(r);
  }
}

static coll_status_t reduce(void *const dsts[], int dst_count, int kept,
                            const void *const sources[], int source_count, size_t count,
                            coll_dtype_t dtype, coll_op_t op, size_t whole) {
  assert(source_count >= 1 && dst_count >= 1 && dst_count <= DEVICE_DSTS_MAX);
  assert((unsigned)op < COLL_OP_BUILTIN_COUNT);
  const host_kernels_t *kernels = kernels_of(dtype);
  if (count == 0) return COLL_OK;
  if (source_count == 1) {
    spread(dsts, dst_count, kept, sources[0], count * kernels->bytes, whole);
    return COLL_OK;
  }
  host_fold_t fold = kernels->fold[op == COLL_AVG ? COLL_SUM : op];
  size_t touched = whole * (size_t)(source_count + dst_count);
  bool streamed = STREAM_AVAILABLE && host_stream_pays(touched, HOST_REDUCE);
  if (dst_count == 1 && !streamed) { /* as small calls do */
    fold(dsts[0], sources, source_count, 0, count);
    return COLL_OK;
  }
  const reduction_t r = {fold, dsts, dst_count, kept, sources, source_count, kernels->bytes, count};
  reduce_large(&r, streamed, whole);
  return COLL_OK;
}

static void settle(void) {
  stream_end();
}

static coll_status_t scale(void *dst, const void *src, size_t count, coll_dtype_t dtype,
                           const void *scalar) {
  const host_kernels_t *kernels = kernels_of(dtype);
  uint64_t aligned; /* the scalar, wherever it lay */
  if (count == 0) return COLL_OK;
  memcpy(&aligned, scalar, kernels->bytes);
  kernels->scale(dst, src, count, &aligned);
  return COLL_OK;
}

static coll_status_t divide(void *buffer, size_t count, coll_dtype_t dtype, int divisor) {
  assert(divisor >= 1);
  if (count == 0) return COLL_OK;
  kernels_of(dtype)->divide(buffer, count, divisor);
  return COLL_OK;
}

const device_ops_t HOST_NAME(device_host) = {
    .name = TABLE_NAME,
    .copy = copy,
    .fetch = fetch,
    .reduce = reduce,
    .store_fence = settle,
    .scale = scale,
    .divide = divide,
};
