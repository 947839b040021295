/*
 * Interface between the engine and the device that holds a communicator's buffers: a table of
 * functions that copy bytes and reduce elements. The host table computes before it returns; a table
 * that queues its work on a device stream keeps the same order.
 */
#ifndef DEVICE_OPS_H
#define DEVICE_OPS_H

#include <stddef.h>

#include "base/status.h"
#include "plan/fuse.h"

struct base_knob;

#define DEVICE_SOURCES_MAX 4096
#define DEVICE_DSTS_MAX PLAN_FUSE_DSTS_MAX

/*
 * No slot waits for a peer, allocates memory or keeps a pointer. Buffers are aligned to their
 * element and have the stated size; with size 0 a slot does nothing and needs no buffer. A slot
 * that does not support a combination returns COLL_ERROR_UNSUPPORTED before it writes anything.
 *
 * `nontemporal_hint` only influences whether results are stored through the caches or with
 * non-temporal stores. It is the total number of bytes, per buffer, of the operation that this call
 * is a part of, because a collective may process its buffers in parts; 0 if the result is loaded
 * again soon. The first `cached_dsts` destinations of a reduction are loaded again soon, whatever
 * the hint. A part (fewer bytes than the hint) that was stored non-temporally may become visible to
 * other threads after later stores of the caller, until the caller calls store_fence.
 */
typedef struct device_ops {
  const char *name;

  /* Copies. dst and src do not overlap, unless they are equal. */
  coll_status_t (*copy)(void *dst, const void *src, size_t bytes, size_t nontemporal_hint);

  /* Copies data that another core has just stored. dst and src do not overlap. */
  coll_status_t (*fetch)(void *dst, const void *src, size_t bytes, size_t nontemporal_hint);

  /* Reduces: dsts[d][i] = the canonical expression (plan.h) over sources[0][i] … sources[n-1][i]
   * for every d, with n >= 1 sources and at least one dst. Builtin ops only; BAND, BOR and BXOR
   * of integers only, AVG of floats only: the average of the sources (average.h), in which the
   * canonical expression is the sum.
   * float32 and float64 are rounded at each node of the expression; narrow floats (float16,
   * bfloat16, float8) are computed in float32 and rounded once at the end, to nearest even. A dst
   * may equal any source or dst; otherwise nothing overlaps. The resulting bits depend on the
   * values alone, not on count, alignment or position. */
  coll_status_t (*reduce)(void *const dsts[], int dst_count, int cached_dsts,
                          const void *const sources[], int source_count, size_t count,
                          coll_dtype_t dtype, coll_op_t op, size_t nontemporal_hint);

  /* Fence for non-temporal stores: a thread that sees what the caller stores after it also sees
   * everything that the caller stored before. It waits for outstanding stores, so one fence for
   * many parts is cheapest. */
  void (*store_fence)(void);

  /* dst[i] = *scalar * src[i]. scalar has type dtype and any alignment; dst may equal src. Narrow
   * floats are multiplied in float32 and rounded once; integers wrap. */
  coll_status_t (*scale)(void *dst, const void *src, size_t count, coll_dtype_t dtype,
                         const void *scalar);

  /* Turns the sums of `operands` operands into averages: of integers, buffer[i] / operands, towards
   * zero; of float32 and float64, whose operands have been multiplied by the weight that average.h
   * gives them, buffer[i] / divisor. Other floats are averaged by `reduce` alone. */
  coll_status_t (*divide)(void *buffer, size_t count, coll_dtype_t dtype, int operands);
} device_ops_t;

/* Opens the host device: the table for the widest instruction set of this processor, or for the one
 * that the COLL_ISA knob names. All tables compute the same bits. Large operations use non-temporal
 * stores, from a size given by COLL_STREAM_BYTES or derived from the size of the last-level cache.
 * COLL_ERROR_INVALID: a knob has a wrong value, or names instructions that the processor lacks. */
coll_status_t device_host_open(const device_ops_t **ops);

/* The table in plain C, for any processor. */
extern const device_ops_t device_host_portable;

/* Knob number `index` of this room; NULL past the end. */
const struct base_knob *device_knob(int index);

#endif
