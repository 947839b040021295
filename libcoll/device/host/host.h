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

/* Copies to one place, and what has several places or sources, each have a size from which they are
 * streamed: of all that they load and store. */
typedef enum host_work { HOST_COPY, HOST_REDUCE, HOST_WORK_COUNT } host_work_t;

/* From now on all of at least that many bytes are streamed; 0: from shares of the last cache, which
 * is looked up when it is first needed. */
void host_stream_set(size_t bytes);

/* Nothing smaller is streamed. Until the sizes are known, the least that they can be. */
extern atomic_size_t host_stream_min[HOST_WORK_COUNT];

/* Whether what has at least host_stream_min bytes is streamed after all. */
bool host_stream_asked(size_t bytes, host_work_t work);

/* Whether what loads and stores that many bytes is to be streamed. */
static inline bool host_stream_pays(size_t bytes, host_work_t work) {
  return bytes >= atomic_load_explicit(&host_stream_min[work], memory_order_relaxed) &&
         host_stream_asked(bytes, work);
}

#endif
