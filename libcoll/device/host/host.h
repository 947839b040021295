/*
 * What the tables of this folder share: which of them this processor can run, and from which size a
 * destination is streamed to memory.
 */
#ifndef DEVICE_HOST_HOST_H
#define DEVICE_HOST_HOST_H

#include <stdatomic.h>
#include <stdbool.h>

#include "device/ops.h"

/* The table of that instruction set; NULL when it is not in this build or not in this processor. */
const device_ops_t *host_isa_find(const char *name);

/* Copies by streaming stores; dst and src do not overlap. */
typedef void (*host_stream_t)(void *dst, const void *src, size_t bytes);

/* From now on destinations of at least that many bytes are streamed; 0: from the size that
 * host_stream_calibrate finds, asked when it is first needed. */
void host_stream_set(size_t bytes);

/* Nothing smaller is streamed. Until the size is known, the least that it is worth looking for. */
extern atomic_size_t host_stream_least;

/* Whether a destination of at least host_stream_least bytes is streamed after all, by a table that
 * streams that way. */
bool host_stream_asked(size_t bytes, const char *table, host_stream_t stream);

/* Whether a destination of that many bytes is to be streamed. */
static inline bool host_stream_pays(size_t bytes, const char *table, host_stream_t stream) {
  return bytes >= atomic_load_explicit(&host_stream_least, memory_order_relaxed) &&
         host_stream_asked(bytes, table, stream);
}

/* From so many bytes in all, a reduction streams to its several destinations: as many as a core's
 * own cache holds. What lies in peers' memory would have to be fetched first, and is of no use in
 * this core's cache afterwards. */
extern atomic_size_t host_scatter_least;

/* The size from which `stream` is faster than memcpy, even when memcpy would find the destination
 * in a cache. Measured in some 20 ms, once per machine: the result is kept (topo/kept.h). */
size_t host_stream_calibrate(const char *table, host_stream_t stream);

#endif
