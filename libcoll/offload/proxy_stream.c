/*
 * What a call queues on its stream. A call waits, by an event, for the call before it, whatever its
 * stream, so slots are free when it begins, and all ranks post their pieces in the order of the
 * calls. Calls that are recorded into a graph are ordered among those of the same capture alone, as
 * the driver permits no other order.
 *
 * The words that streams wait for are 32 bits wide, as every driver that we take waits for those on
 * every GPU.
 */
#include "offload/proxy_state.h"

#define PAGE_BYTES 4096
#define WORD_STRIDE 64 /* a cache line */

_Static_assert(PROXY_SLOTS *WORD_STRIDE <= PAGE_BYTES, "the words are in a page");

coll_status_t proxy_enter(const offload_proxy_t *proxy, cuda_capture_mode_t *mode) {
  cuda_context_t context;
  *mode = CUDA_CAPTURE_RELAXED;
  COLL_TRY(PROXY_CALL(proxy, cuCtxPushCurrent, proxy->context));
  coll_status_t status = PROXY_CALL(proxy, cuThreadExchangeStreamCaptureMode, mode);
  if (status != COLL_OK) (void)proxy->driver->cuCtxPopCurrent(&context);
  return status;
}

void proxy_leave(const offload_proxy_t *proxy, cuda_capture_mode_t mode) {
  cuda_context_t context;
  (void)proxy->driver->cuThreadExchangeStreamCaptureMode(&mode);
  (void)proxy->driver->cuCtxPopCurrent(&context);
}

/* ---- order -----------------------------------------------------------------------------------*/

coll_status_t proxy_order_init(offload_proxy_t *proxy) {
  COLL_TRY(PROXY_CALL(proxy, cuEventCreate, &proxy->last, CUDA_EVENT_NO_TIMING));
  return PROXY_CALL(proxy, cuEventCreate, &proxy->last_captured, CUDA_EVENT_NO_TIMING);
}

void proxy_order_free(offload_proxy_t *proxy) {
  if (proxy->last_captured != NULL) (void)proxy->driver->cuEventDestroy(proxy->last_captured);
  if (proxy->last != NULL) (void)proxy->driver->cuEventDestroy(proxy->last);
  proxy->last = proxy->last_captured = NULL;
}

typedef struct to {
  cuda_stream_t stream;
  uint64_t capture; /* that records the stream; 0: none */
} to_t;

static coll_status_t find_capture(const offload_proxy_t *proxy, to_t *to) {
  cuda_capture_status_t status;
  COLL_TRY(PROXY_CALL(proxy, cuStreamIsCapturing, to->stream, &status));
  if (status == CUDA_CAPTURE_NONE) return COLL_OK;
  return PROXY_CALL(proxy, cuStreamGetCaptureInfo, to->stream, &status, &to->capture, NULL, NULL,
                    NULL);
}

static coll_status_t wait_for_last(const offload_proxy_t *proxy, const to_t *to) {
  cuda_event_t last = proxy->has_last ? proxy->last : NULL;
  if (to->capture != 0) last = proxy->capture == to->capture ? proxy->last_captured : NULL;
  if (last == NULL) return COLL_OK;
  return PROXY_CALL(proxy, cuStreamWaitEvent, to->stream, last, 0);
}

static coll_status_t record(offload_proxy_t *proxy, const to_t *to) {
  if (to->capture == 0) {
    proxy->has_last = true;
    return PROXY_CALL(proxy, cuEventRecord, proxy->last, to->stream);
  }
  proxy->capture = to->capture;
  return PROXY_CALL(proxy, cuEventRecord, proxy->last_captured, to->stream);
}

/* ---- steps -----------------------------------------------------------------------------------*/

coll_status_t proxy_copy(const offload_proxy_t *proxy, cuda_stream_t stream, void *dst,
                         const void *src, size_t bytes) {
  if (bytes == 0) return COLL_OK;
  return PROXY_CALL(proxy, cuMemcpyAsync, (cuda_ptr_t)(uintptr_t)dst, (cuda_ptr_t)(uintptr_t)src,
                    bytes, stream);
}

static coll_status_t begin_step(offload_proxy_t *proxy, const to_t *to, const proxy_steps_t *steps,
                                size_t step, const proxy_slot_t *slot) {
  proxy_job_t *job;
  COLL_TRY(steps->begin(steps->context, step, slot, to->stream, &job));
  job->is_captured = to->capture != 0;
  coll_status_t status = PROXY_CALL(proxy, cuLaunchHostFunc, to->stream, proxy_job_post, job);
  if (status != COLL_OK) proxy_job_free(job);
  return status;
}

static coll_status_t end_step(const offload_proxy_t *proxy, const to_t *to,
                              const proxy_steps_t *steps, size_t step, const proxy_slot_t *slot) {
  COLL_TRY(PROXY_CALL(proxy, cuStreamWaitValue32, to->stream, slot->done_address, 1, CUDA_WAIT_EQ));
  return steps->end(steps->context, step, slot, to->stream);
}

static coll_status_t queue_one(offload_proxy_t *proxy, const to_t *to, const proxy_steps_t *steps) {
  const proxy_slot_t *slot;
  COLL_TRY(proxy_memory_find(proxy, steps->in_bytes, steps->out_bytes, &slot));
  COLL_TRY(begin_step(proxy, to, steps, 0, slot));
  return end_step(proxy, to, steps, 0, slot);
}

static coll_status_t queue_steps(offload_proxy_t *proxy, const to_t *to,
                                 const proxy_steps_t *steps) {
  const proxy_slot_t *slots = proxy->slots;
  if (steps->count == 1) return queue_one(proxy, to, steps);
  for (size_t step = 0; step < steps->count + PROXY_SLOTS; step++) {
    const proxy_slot_t *slot = &slots[step % PROXY_SLOTS];
    if (step >= PROXY_SLOTS && step - PROXY_SLOTS < steps->count) {
      COLL_TRY(end_step(proxy, to, steps, step - PROXY_SLOTS, slot));
    }
    if (step < steps->count) COLL_TRY(begin_step(proxy, to, steps, step, slot));
  }
  return COLL_OK;
}

static coll_status_t queue(offload_proxy_t *proxy, to_t *to, const proxy_steps_t *steps) {
  COLL_TRY(find_capture(proxy, to));
  COLL_TRY(wait_for_last(proxy, to));
  coll_status_t status = queue_steps(proxy, to, steps);
  /* also behind a part of a call, whose jobs are waited for before the proxy is freed */
  coll_status_t recorded = record(proxy, to);
  return status == COLL_OK ? recorded : status;
}

coll_status_t proxy_queue(offload_proxy_t *proxy, cuda_stream_t stream,
                          const proxy_steps_t *steps) {
  cuda_capture_mode_t mode;
  to_t to = {.stream = stream};
  COLL_TRY(proxy_enter(proxy, &mode));
  coll_status_t status = queue(proxy, &to, steps);
  proxy_leave(proxy, mode);
  return status;
}
