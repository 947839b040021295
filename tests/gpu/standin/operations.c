/*
 * The functions that queue work. What the driver can see at the call is checked there; access is
 * checked again when the work runs.
 */
#include <string.h>

#include "gpu/standin/state.h"

bool standin_copy_allowed(cuda_context_t context, const operation_t *copy) {
  bool between = copy->flags != 0;
  cuda_context_t dst = between ? &standin.contexts[copy->value & 0xff] : context;
  cuda_context_t src = between ? &standin.contexts[copy->value >> 8] : context;
  return standin_accessible(dst, copy->dst, copy->bytes, true, true) &&
         standin_accessible(src, copy->src, copy->bytes, false, true);
}

/* Aligned words of 8 bytes are copied whole to memory of the host, which those who read flags so
 * rely on. */
#define WORDS_MAX ((size_t)64 << 10)

cuda_result_t standin_operation_check(cuda_stream_t stream, operation_t *o, size_t align) {
  bool copies = o->kind == OPERATION_COPY;
  bool reads = o->kind == OPERATION_WAIT32 || o->kind == OPERATION_WAIT64;
  const region_t *to = copies ? standin_region(o->dst) : NULL;
  o->words = copies && (o->dst | o->src | o->bytes) % 8 == 0 && o->bytes <= WORDS_MAX &&
             to != NULL && to->kind == REGION_HOST;
  bool is_allowed = copies ? standin_copy_allowed(stream->context, o)
                           : standin_accessible(stream->context, o->dst, o->bytes, !reads, false);
  return o->dst % align == 0 && is_allowed ? CUDA_RESULT_OK : CUDA_RESULT_INVALID_VALUE;
}

/* Queues an operation whose memory the device may use now. align: of dst. */
static cuda_result_t queue(cuda_stream_t handle, operation_t *o, size_t align) {
  cuda_context_t context;
  cuda_result_t result = standin_enter_context(&context);
  if (result != CUDA_RESULT_OK) return result;
  cuda_stream_t stream = standin_stream(context, handle);
  if (stream == NULL) return standin_leave(CUDA_RESULT_INVALID_HANDLE);
  result = standin_operation_check(stream, o, align);
  return standin_leave(result == CUDA_RESULT_OK ? standin_queue(stream, o) : result);
}

cuda_result_t cuMemcpyAsync(cuda_ptr_t dst, cuda_ptr_t src, size_t bytes, cuda_stream_t stream) {
  operation_t o = {.kind = OPERATION_COPY, .dst = dst, .src = src, .bytes = bytes};
  return queue(stream, &o, 1);
}

/* No GPU needs access to the memory of the other. */
cuda_result_t cuMemcpyPeerAsync(cuda_ptr_t dst, cuda_context_t dst_context, cuda_ptr_t src,
                                cuda_context_t src_context, size_t bytes, cuda_stream_t stream) {
  if (dst_context == NULL || src_context == NULL) return CUDA_RESULT_INVALID_CONTEXT;
  operation_t o = {.kind = OPERATION_COPY,
                   .dst = dst,
                   .src = src,
                   .bytes = bytes,
                   .flags = 1,
                   .value = STANDIN_PEERS(dst_context->device, src_context->device)};
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

/* The one flag that there was, no memory barrier, is of the first version of these functions. */
cuda_result_t cuStreamWriteValue32_v2(cuda_stream_t stream, cuda_ptr_t address, uint32_t value,
                                      unsigned flags) {
  operation_t o = {.kind = OPERATION_WRITE32, .dst = address, .bytes = 4, .value = value};
  return flags != 0 ? CUDA_RESULT_INVALID_VALUE : queue(stream, &o, 4);
}

cuda_result_t cuStreamWriteValue64_v2(cuda_stream_t stream, cuda_ptr_t address, uint64_t value,
                                      unsigned flags) {
  operation_t o = {.kind = OPERATION_WRITE64, .dst = address, .bytes = 8, .value = value};
  return flags != 0 ? CUDA_RESULT_INVALID_VALUE : queue(stream, &o, 8);
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
