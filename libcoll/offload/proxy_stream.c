/*
 * What a call queues on its stream. A call waits for the call before it (device/cuda/order.h),
 * whatever its stream, so slots are free when it begins, and all ranks post their pieces in the
 * order of the calls.
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

/* ---- steps -----------------------------------------------------------------------------------*/

static coll_status_t begin_step(offload_proxy_t *proxy, const cuda_order_stream_t *to,
                                const proxy_steps_t *steps, size_t step, const proxy_slot_t *slot) {
  proxy_job_t *job;
  cuda_copies_t copies;
  cuda_copies_begin(proxy->driver, proxy->device, to->stream, to->capture != 0, &copies);
  COLL_TRY(steps->begin(steps->context, step, slot, &copies, &job));
  job->is_captured = to->capture != 0;
  coll_status_t status = cuda_copies_queue(&copies);
  if (status == COLL_OK) {
    status = PROXY_CALL(proxy, cuLaunchHostFunc, to->stream, proxy_job_post, job);
  }
  if (status != COLL_OK) proxy_job_free(job);
  return status;
}

static coll_status_t end_step(const offload_proxy_t *proxy, const cuda_order_stream_t *to,
                              const proxy_steps_t *steps, size_t step, const proxy_slot_t *slot) {
  cuda_copies_t copies;
  COLL_TRY(PROXY_CALL(proxy, cuStreamWaitValue32, to->stream, slot->done_address, 1, CUDA_WAIT_EQ));
  cuda_copies_begin(proxy->driver, proxy->device, to->stream, to->capture != 0, &copies);
  COLL_TRY(steps->end(steps->context, step, slot, &copies));
  return cuda_copies_queue(&copies);
}

static coll_status_t queue_one(offload_proxy_t *proxy, const cuda_order_stream_t *to,
                               const proxy_steps_t *steps) {
  const proxy_slot_t *slot;
  COLL_TRY(proxy_memory_find(proxy, steps->in_bytes, steps->out_bytes, &slot));
  COLL_TRY(begin_step(proxy, to, steps, 0, slot));
  return end_step(proxy, to, steps, 0, slot);
}

static coll_status_t queue_steps(offload_proxy_t *proxy, const cuda_order_stream_t *to,
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

static coll_status_t queue(offload_proxy_t *proxy, cuda_stream_t stream,
                           const proxy_steps_t *steps) {
  cuda_order_stream_t to;
  COLL_TRY(cuda_order_find(&proxy->order, stream, &to));
  COLL_TRY(cuda_order_wait(&proxy->order, &to));
  coll_status_t status = queue_steps(proxy, &to, steps);
  /* also behind a part of a call, whose jobs are waited for before the proxy is freed */
  coll_status_t recorded = cuda_order_record(&proxy->order, &to);
  return status == COLL_OK ? recorded : status;
}

coll_status_t proxy_queue(offload_proxy_t *proxy, cuda_stream_t stream,
                          const proxy_steps_t *steps) {
  cuda_capture_mode_t mode;
  COLL_TRY(proxy_enter(proxy, &mode));
  coll_status_t status = queue(proxy, stream, steps);
  proxy_leave(proxy, mode);
  return status;
}
