/*
 * Calls on GPUs, and the streams that coll_stream_from_cuda makes.
 */
#ifndef API_GPU_H
#define API_GPU_H

#include "api/stream.h"
#include "offload/gpu.h"

/* The stream is a live one. */
static inline bool api_stream_is_gpu(coll_stream_t stream) {
  return api_stream_is(stream, API_STREAM_GPU);
}

/* Finds out whether a checked call is on a GPU: it names such a stream, or its buffers are device
 * memory and it names none; *stream is then the one that stands for the communicator's own.
 * COLL_ERROR_INVALID: its buffers and its stream do not go together. */
coll_status_t api_gpu_resolve(const run_call_t *call, coll_stream_t *stream);

/* Calls on such streams. Queueing takes over what the calls own; completing them, also after a
 * failure, waits for those without a stream of the caller's. on: [count], filled in by the one for
 * the other. */
coll_status_t api_gpu_queue(const run_call_t calls[], const coll_stream_t streams[], size_t count,
                            offload_stream_t on[]);
/* One call: both. */
coll_status_t api_gpu_run(const run_call_t *call, coll_stream_t stream);

/* What coll.h says of streams, for those on a GPU. */
coll_status_t api_gpu_stream_query(coll_stream_t stream);
coll_status_t api_gpu_stream_sync(coll_stream_t stream);
coll_status_t api_gpu_stream_destroy(coll_stream_t stream);

#endif
