/*
 * A device table over the kernels of one instruction set; compiled once per instruction set. A
 * result that is streamed, or has several destinations, is computed block by block into the L1
 * cache and stored from there: memory is read once, and one streaming loop serves every type and
 * operation.
 */
#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "base/inline.h"
#include "base/move.h"
#include "base/names.h"
#include "device/host/host.h"
#include "device/host/kernels.h"
#include "device/host/stream.h"
#include "device/host/vector.h"

/* short enough that loads of the next block overlap with the stores of this one */
#define BLOCK_BYTES 512
/* Choice of copy: below VECTORS_MIN memcpy, which uses vectors for them; up to VECTORS_MAX (what L2
 * caches hold) the vector loop here, where memcpy would use string instructions; above, memcpy's
 * string instructions, and from STRING_BYTES on string instructions written here, because some C
 * libraries stop using them. */
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
    [COLL_INT16] = &HOST_NAME(host_int16),
    [COLL_UINT16] = &HOST_NAME(host_uint16),
};

static const host_kernels_t *kernels_of(coll_dtype_t dtype) {
  assert((unsigned)dtype < COLL_DTYPE_COUNT);
  return elements[dtype];
}

static size_t smaller(size_t a, size_t b) {
  return a < b ? a : b;
}

/* ---- streaming ------------------------------------------------------------------------------*/

/* Bytes from p to the next cache line boundary. */
static size_t to_line(const void *p) {
  return (size_t)(-(uintptr_t)p % STREAM_LINE);
}

typedef void store_t(void *dst, const void *src, size_t bytes);

/* Streams the full lines of dst, and stores the bytes around them normally. */
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

/* Called after streaming. A part of a larger operation leaves the fence to store_fence. */
static void end_stream(size_t bytes, size_t nontemporal_hint) {
  if (bytes >= nontemporal_hint) stream_end();
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
    /* keeps compilers from replacing the loop by a call of memcpy */
    __asm__ volatile("" : : : "memory");
  }
  memcpy(to + done, from + done, bytes - done);
}

static void move_string(char *to, const char *from, size_t bytes) {
  size_t first = to_line(to);
  memcpy(to, from, first);
  base_move_string(to + first, from + first, bytes - first);
}

static void copy_cached(void *dst, const void *src, size_t bytes, size_t nontemporal_hint) {
  if (bytes <= VECTORS_MAX && nontemporal_hint <= VECTORS_MAX) {
    move_vectors(dst, src, bytes);
  } else if (bytes < STRING_BYTES || !base_moves_strings()) {
    memcpy(dst, src, bytes);
  } else {
    move_string(dst, src, bytes);
  }
}

BASE_APART static coll_status_t copy_long(void *dst, const void *src, size_t bytes,
                                          size_t nontemporal_hint) {
  if (dst == src) return COLL_OK;
  if (STREAM_AVAILABLE && host_stream_pays(2 * nontemporal_hint, HOST_COPY)) {
    stream_bytes(dst, src, bytes);
    end_stream(bytes, nontemporal_hint);
  } else {
    copy_cached(dst, src, bytes, nontemporal_hint);
  }
  return COLL_OK;
}

static coll_status_t copy(void *dst, const void *src, size_t bytes, size_t nontemporal_hint) {
  if (bytes > BASE_MOVE_SHORT) return copy_long(dst, src, bytes, nontemporal_hint);
  base_move_short(dst, src, bytes);
  return COLL_OK;
}

/* Copies lines that another core has in its caches. String instructions overlap fewer such
 * transfers and take a third to a half longer. Data larger than this core's caches is copied
 * normally, because there it matters more not to read the destination. */
static coll_status_t fetch(void *dst, const void *src, size_t bytes, size_t nontemporal_hint) {
  if (bytes <= BASE_MOVE_SHORT || nontemporal_hint >= STRING_BYTES)
    return copy(dst, src, bytes, nontemporal_hint);
  move_vectors(dst, src, bytes);
  return COLL_OK;
}

/* ---- copies to several destinations ---------------------------------------------------------*/

/* The kind of store for a destination in a streamed operation: normal if it is loaded again soon.
 * */
static store_t *store_of(int dst, int cached_dsts) {
  return dst < cached_dsts ? store_bytes : stream_bytes;
}

/* Length of the first block, so that the next begins at a cache line. */
static size_t first_part(size_t to_first_line, size_t block) {
  return to_first_line > 0 ? to_first_line : block;
}

/* Copies block by block, so that memory is read once for all destinations. The first block ends
 * where a line of the first streamed destination begins. */
static void copy_to_all_streamed(void *const dsts[], int dst_count, int cached_dsts,
                                 const void *src, size_t bytes) {
  size_t limit = first_part(to_line(dsts[cached_dsts]), BLOCK_BYTES), part;
  for (size_t at = 0; at < bytes; at += part, limit = BLOCK_BYTES) {
    part = smaller(limit, bytes - at);
    for (int d = 0; d < dst_count; d++) {
      if (dsts[d] == src) continue;
      store_of(d, cached_dsts)((char *)dsts[d] + at, (const char *)src + at, part);
    }
  }
}

BASE_APART static void copy_to_all(void *const dsts[], int dst_count, int cached_dsts,
                                   const void *src, size_t bytes, size_t nontemporal_hint) {
  size_t touched = nontemporal_hint * (size_t)(1 + dst_count);
  if (dst_count > 1 && cached_dsts < dst_count && STREAM_AVAILABLE &&
      host_stream_pays(touched, HOST_REDUCE)) {
    copy_to_all_streamed(dsts, dst_count, cached_dsts, src, bytes);
    end_stream(bytes, nontemporal_hint);
    return;
  }
  for (int d = 0; d < dst_count; d++)
    copy(dsts[d], src, bytes, d < cached_dsts ? 0 : nontemporal_hint);
}

/* ---- reduce ---------------------------------------------------------------------------------*/

typedef struct reduction {
  host_fold_t fold;
  void *const *dsts;
  int dst_count, cached_dsts;
  const void *const *sources;
  int source_count; /* at least 2 */
  size_t element_bytes, count;
} reduction_t;

/* Each block is computed into the first destination and copied from there while it is cached. */
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

/* A destination that is also a source has just been read and is cached: a normal store costs no
 * more. Returns whether any destination is left to stream. */
static bool choose_stores(const reduction_t *r, store_t *stores[]) {
  bool any = false;
  for (int d = 0; d < r->dst_count; d++) {
    stores[d] = store_of(d, r->cached_dsts);
    for (int k = 0; k < r->source_count; k++) {
      if (r->sources[k] == r->dsts[d]) stores[d] = store_bytes;
    }
    any = any || stores[d] == stream_bytes;
  }
  return any;
}

/* Each block is computed in a local buffer. The first is cut as in copy_to_all_streamed. */
static void reduce_streamed(const reduction_t *r, store_t *const stores[]) {
  _Alignas(STREAM_LINE) char result[BLOCK_BYTES];
  size_t per_block = BLOCK_BYTES / r->element_bytes, part;
  const void *dst = r->dsts[r->cached_dsts < r->dst_count ? r->cached_dsts : 0];
  size_t limit = first_part(to_line(dst) / r->element_bytes, per_block);
  for (size_t first = 0; first < r->count; first += part, limit = per_block) {
    part = smaller(limit, r->count - first);
    size_t offset = first * r->element_bytes, bytes = part * r->element_bytes;
    r->fold(result, r->sources, r->source_count, offset, part);
    for (int d = 0; d < r->dst_count; d++) {
      stores[d]((char *)r->dsts[d] + offset, result, bytes);
    }
  }
}

BASE_APART static void reduce_large(const reduction_t *r, bool streamed, size_t nontemporal_hint) {
  store_t *stores[DEVICE_DSTS_MAX];
  if (streamed && choose_stores(r, stores)) {
    reduce_streamed(r, stores);
    end_stream(r->count * r->element_bytes, nontemporal_hint);
  } else if (r->dst_count == 1) {
    r->fold(r->dsts[0], r->sources, r->source_count, 0, r->count);
  } else {
    reduce_in_cache(r);
  }
}

BASE_COLD static coll_status_t fail_op(coll_dtype_t dtype, coll_op_t op) {
  return base_fail(COLL_ERROR_UNSUPPORTED, "%s reduces no %s with %s", TABLE_NAME,
                   base_dtype_name(dtype), base_op_name(op));
}

static coll_status_t reduce(void *const dsts[], int dst_count, int cached_dsts,
                            const void *const sources[], int source_count, size_t count,
                            coll_dtype_t dtype, coll_op_t op, size_t nontemporal_hint) {
  assert(source_count >= 1 && dst_count >= 1 && dst_count <= DEVICE_DSTS_MAX);
  assert((unsigned)op < COLL_OP_BUILTIN_COUNT);
  const host_kernels_t *kernels = kernels_of(dtype);
  host_fold_t fold = kernels->fold[op];
  if (fold == NULL) return fail_op(dtype, op);
  if (count == 0) return COLL_OK;
  if (source_count == 1) {
    copy_to_all(dsts, dst_count, cached_dsts, sources[0], count * kernels->bytes, nontemporal_hint);
    return COLL_OK;
  }
  size_t touched = nontemporal_hint * (size_t)(source_count + dst_count);
  bool streamed = STREAM_AVAILABLE && host_stream_pays(touched, HOST_REDUCE);
  if (dst_count == 1 && !streamed) { /* usual for small calls */
    fold(dsts[0], sources, source_count, 0, count);
    return COLL_OK;
  }
  const reduction_t r = {fold,    dsts,         dst_count,      cached_dsts,
                         sources, source_count, kernels->bytes, count};
  reduce_large(&r, streamed, nontemporal_hint);
  return COLL_OK;
}

static void store_fence(void) {
  stream_end();
}

static coll_status_t scale(void *dst, const void *src, size_t count, coll_dtype_t dtype,
                           const void *scalar) {
  const host_kernels_t *kernels = kernels_of(dtype);
  uint64_t aligned; /* copy of the scalar, which may be unaligned */
  if (count == 0) return COLL_OK;
  memcpy(&aligned, scalar, kernels->bytes);
  kernels->scale(dst, src, count, &aligned);
  return COLL_OK;
}

static coll_status_t divide(void *buffer, size_t count, coll_dtype_t dtype, int operands) {
  const host_kernels_t *kernels = kernels_of(dtype);
  assert(operands >= 1);
  if (kernels->divide == NULL) return fail_op(dtype, COLL_AVG);
  if (count > 0) kernels->divide(buffer, count, operands);
  return COLL_OK;
}

const device_ops_t HOST_NAME(device_host) = {
    .name = TABLE_NAME,
    .copy = copy,
    .fetch = fetch,
    .reduce = reduce,
    .store_fence = store_fence,
    .scale = scale,
    .divide = divide,
};
