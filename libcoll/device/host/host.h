/*
 * Shared by the tables of this folder: which of them this processor can run, and the size from
 * which destinations are stored non-temporally ("streamed").
 */
#ifndef DEVICE_HOST_HOST_H
#define DEVICE_HOST_HOST_H

#include <stdatomic.h>
#include <stdbool.h>

#include "device/ops.h"

/* The table of the named instruction set; NULL if this build or this processor does not have it. */
const device_ops_t *host_isa_find(const char *name);

/* Copies to one destination, and operations with several destinations or sources, have separate
 * thresholds, in bytes loaded and stored. */
typedef enum host_work { HOST_COPY, HOST_REDUCE, HOST_WORK_COUNT } host_work_t;

/* Sets both thresholds to `bytes`; 0: to fractions of the last-level cache, whose size is looked up
 * at first use. */
void host_stream_set(size_t bytes);

/* Thresholds, and until they are known, lower bounds of them: nothing smaller is streamed. */
extern atomic_size_t host_stream_min[HOST_WORK_COUNT];

/* For operations of at least host_stream_min bytes: determines the thresholds if that was not done,
 * and returns whether the operation is streamed. */
bool host_stream_is_large(size_t bytes, host_work_t work);

/* Returns whether an operation that loads and stores `bytes` bytes is streamed. */
static inline bool host_stream_pays(size_t bytes, host_work_t work) {
  return bytes >= atomic_load_explicit(&host_stream_min[work], memory_order_relaxed) &&
         host_stream_is_large(bytes, work);
}

#endif
