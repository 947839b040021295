/*
 * The functions that queue work. What the driver can see at the call is checked there; access is
 * checked again when the work runs.
 */
#include <string.h>

#include "gpu/standin/state.h"

/* Queues an operation whose memory the device may use now. align: of dst. */
static cuda_result_t queue(cuda_stream_t handle, const operation_t *o, size_t align) {
  cuda_context_t context;
  bool copies = o->kind == OPERATION_COPY;
  bool reads = o->kind == OPERATION_WAIT32 || o->kind == OPERATION_WAIT64;
  cuda_result_t result = standin_enter_context(&context);
  if (result != CUDA_RESULT_OK) return result;
  cuda_stream_t stream = standin_stream(context, handle);
  if (stream == NULL) return standin_leave(CUDA_RESULT_INVALID_HANDLE);
  context = stream->context;
  if (o->dst % align != 0 || !standin_accessible(context, o->dst, o->bytes, !reads, copies) ||
      (copies && !standin_accessible(context, o->src, o->bytes, false, true))) {
    return standin_leave(CUDA_RESULT_INVALID_VALUE);
  }
  return standin_leave(standin_queue(stream, o));
}

cuda_result_t cuMemcpyAsync(cuda_ptr_t dst, cuda_ptr_t src, size_t bytes, cuda_stream_t stream) {
  operation_t o = {.kind = OPERATION_COPY, .dst = dst, .src = src, .bytes = bytes};
  return queue(stream, &o, 1);
}

cuda_result_t cuMemsetD8Async(cuda_ptr_t dst, unsigned char value, size_t count,
                              cuda_stream_t stream) {
  operation_t o = {.kind = OPERATION_SET8, .dst = dst, .bytes = count, .value = value};
  return queue(stream, &o, 1);
}

cuda_result_t cuMemsetD32Async(cuda_ptr_t dst, unsigned value, size_t count, cuda_stream_t stream) {
  operation_t o = {.kind = OPERATION_SET32, .dst = dst, .bytes = 4 * count, .value = value};
  return queue(stream, &o, 4);
}

cuda_result_t cuStreamWriteValue32_v2(cuda_stream_t stream, cuda_ptr_t address, uint32_t value,
                                      unsigned flags) {
  operation_t o = {.kind = OPERATION_WRITE32, .dst = address, .bytes = 4, .value = value};
  return flags > 1 ? CUDA_RESULT_INVALID_VALUE : queue(stream, &o, 4);
}

cuda_result_t cuStreamWriteValue64_v2(cuda_stream_t stream, cuda_ptr_t address, uint64_t value,
                                      unsigned flags) {
  operation_t o = {.kind = OPERATION_WRITE64, .dst = address, .bytes = 8, .value = value};
  return flags > 1 ? CUDA_RESULT_INVALID_VALUE : queue(stream, &o, 8);
}

cuda_result_t cuStreamWaitValue32_v2(cuda_stream_t stream, cuda_ptr_t address, uint32_t value,
                                     unsigned flags) {
  operation_t o = {
      .kind = OPERATION_WAIT32, .dst = address, .bytes = 4, .value = value, .flags = flags};
  return flags > CUDA_WAIT_NOR ? CUDA_RESULT_INVALID_VALUE : queue(stream, &o, 4);
}

cuda_result_t cuStreamWaitValue64_v2(cuda_stream_t stream, cuda_ptr_t address, uint64_t value,
                                     unsigned flags) {
  operation_t o = {
      .kind = OPERATION_WAIT64, .dst = address, .bytes = 8, .value = value, .flags = flags};
  return flags > CUDA_WAIT_NOR ? CUDA_RESULT_INVALID_VALUE : queue(stream, &o, 8);
}

cuda_result_t cuLaunchHostFunc(cuda_stream_t stream, cuda_host_fn_t function, void *context) {
  operation_t o = {.kind = OPERATION_HOST, .host = function, .context = context};
  return function == NULL ? CUDA_RESULT_INVALID_VALUE : queue(stream, &o, 1);
}
