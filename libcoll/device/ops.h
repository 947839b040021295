/*
 * What the engine asks of the device that holds a communicator's buffers: move bytes and reduce
 * elements. The host table computes in place of the call; a table whose work is queued on a device
 * stream keeps the same order.
 */
#ifndef DEVICE_OPS_H
#define DEVICE_OPS_H

#include <stddef.h>

#include "base/status.h"

struct base_knob;

#define DEVICE_SOURCES_MAX 4096
#define DEVICE_DSTS_MAX 64

/* No slot blocks on a peer, allocates or keeps a pointer. Buffers are aligned to their element and
 * of the stated size; a size of 0 does nothing and needs no buffer. A slot that cannot do a
 * combination returns COLL_ERROR_UNSUPPORTED before writing anything.
 *
 * `whole` is no more than a hint where to store, in a cache or past it: of how many bytes, of each
 * buffer, this is one part, as a collective may go through its buffers in parts; 0 where what is
 * stored is about to be loaded again. So are the first `kept` destinations of a reduction, whatever
 * is said of the others. A part, of fewer bytes than its whole, that went past the caches may be
 * seen by others late, and after what the caller stores next, up to a settle. */
typedef struct device_ops {
  const char *name;

  /* dst and src do not overlap, unless they are equal. */
  coll_status_t (*copy)(void *dst, const void *src, size_t bytes, size_t whole);

  /* The same from where another core has just stored it. They do not overlap. */
  coll_status_t (*fetch)(void *dst, const void *src, size_t bytes, size_t whole);

  /* dsts[d][i] = the canonical expression (plan.h) over sources[0][i] … sources[n-1][i] for every
   * d, n >= 1 and at least one dst; builtin op, AVG reduces as SUM. float32 and float64 are rounded
   * at each of its nodes; narrow floats (float16, bfloat16, float8) are computed in float32 and
   * rounded once at the end, to nearest even. A dst may equal any of the sources or dsts, and
   * overlaps none otherwise. The bits depend on the values alone, not on count, alignment or
   * position. */
  coll_status_t (*reduce)(void *const dsts[], int dst_count, int kept, const void *const sources[],
                          int source_count, size_t count, coll_dtype_t dtype, coll_op_t op,
                          size_t whole);

  /* Once it returns, others that see what this thread stores next see all that it has stored
   * before, parts too. Waits for them, so that one for many parts costs least. */
  void (*store_fence)(void);

  /* dst[i] = *scalar * src[i], scalar of type dtype and at any address; dst may equal src. Narrow
   * floats multiply in float32 and round once; integers wrap. */
  coll_status_t (*scale)(void *dst, const void *src, size_t count, coll_dtype_t dtype,
                         const void *scalar);

  /* buffer[i] = buffer[i] / divisor, integers towards zero: what turns a sum into an average. */
  coll_status_t (*divide)(void *buffer, size_t count, coll_dtype_t dtype, int divisor);
} device_ops_t;

/* This machine's processors, by the widest instructions that they have or those that the COLL_ISA
 * knob names; all compute the same bits. What is part of a large whole is stored past the caches,
 * from a size that COLL_STREAM_BYTES gives or from shares of the last cache.
 * COLL_ERROR_INVALID: a knob is wrong, or asks for what the processor lacks. */
coll_status_t device_host_open(const device_ops_t **ops);

/* The same in plain C, for any processor. */
extern const device_ops_t device_host_portable;

/* The index-th knob of this room; NULL past the end. */
const struct base_knob *device_knob(int index);

#endif
