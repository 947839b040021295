/*
 * Copies and memset. cudaMemcpy waits for its copy unless both ends are memory of GPUs, and
 * cudaMemset only where the host can see the memory; of plain memory, cudaMemcpyAsync has read all
 * when it returns, and written all.
 */
#include <stdlib.h>
#include <string.h>

#include "gpu/runtime/runtime.h"

typedef struct copy {
  void *dst;
  const void *src;
  size_t bytes;
  runtime_memory_t dst_memory, src_memory;
  int dst_device, src_device;
} copy_t;

/* Whether the memory may stand on a side of a copy that is said to be a device's, or the host's. */
static bool fits(runtime_memory_t memory, bool is_device) {
  return memory != (is_device ? RUNTIME_PLAIN : RUNTIME_DEVICE);
}

static cuda_result_t check(const copy_t *copy, enum cudaMemcpyKind kind) {
  if (kind == cudaMemcpyDefault) return CUDA_RESULT_OK;
  if ((unsigned)kind > cudaMemcpyDefault) return (cuda_result_t)cudaErrorInvalidMemcpyDirection;
  bool from = kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
  bool to = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
  bool is_good = fits(copy->src_memory, from) && fits(copy->dst_memory, to);
  return is_good ? CUDA_RESULT_OK : CUDA_RESULT_INVALID_VALUE;
}

/* Enters, and finds out what the ends are. */
static cuda_result_t begin(copy_t *copy, enum cudaMemcpyKind kind) {
  cuda_result_t result = runtime_enter();
  if (result == CUDA_RESULT_OK) {
    result = runtime_memory(copy->dst, &copy->dst_memory, &copy->dst_device);
  }
  if (result == CUDA_RESULT_OK) {
    result = runtime_memory(copy->src, &copy->src_memory, &copy->src_device);
  }
  return result == CUDA_RESULT_OK ? check(copy, kind) : result;
}

/* Copies between GPUs need no peer access. */
static cuda_result_t queue(const copy_t *copy, cudaStream_t stream) {
  cuda_context_t dst, src;
  int current, dst_device, src_device;
  cuda_result_t result = runtime_device(&current);
  if (result != CUDA_RESULT_OK) return result;
  dst_device = copy->dst_memory == RUNTIME_DEVICE ? copy->dst_device : current;
  src_device = copy->src_memory == RUNTIME_DEVICE ? copy->src_device : current;
  if (dst_device == src_device && dst_device == current) {
    return cuMemcpyAsync(runtime_address(copy->dst), runtime_address(copy->src), copy->bytes,
                         stream);
  }
  result = runtime_context(dst_device, &dst);
  if (result == CUDA_RESULT_OK) result = runtime_context(src_device, &src);
  if (result != CUDA_RESULT_OK) return result;
  return cuMemcpyPeerAsync(runtime_address(copy->dst), dst, runtime_address(copy->src), src,
                           copy->bytes, stream);
}

cudaError_t cudaMemcpy(void *dst, const void *src, size_t bytes, enum cudaMemcpyKind kind) {
  copy_t copy = {.dst = dst, .src = src, .bytes = bytes};
  cuda_result_t result = begin(&copy, kind);
  if (result != CUDA_RESULT_OK || bytes == 0) return runtime_end(result);
  result = queue(&copy, NULL);
  bool waits = copy.dst_memory != RUNTIME_DEVICE || copy.src_memory != RUNTIME_DEVICE;
  if (result == CUDA_RESULT_OK && waits) result = cuStreamSynchronize(NULL);
  return runtime_end(result);
}

/* Queues the copy from memory of its own, which the stream then frees. */
static cuda_result_t queue_staged(copy_t *copy, cudaStream_t stream) {
  void *staged = malloc(copy->bytes);
  if (staged == NULL) return CUDA_RESULT_OUT_OF_MEMORY;
  memcpy(staged, copy->src, copy->bytes);
  copy->src = staged;
  cuda_result_t result = queue(copy, stream);
  if (result != CUDA_RESULT_OK) {
    free(staged);
    return result;
  }
  return cuLaunchHostFunc(stream, free, staged);
}

cudaError_t cudaMemcpyAsync(void *dst, const void *src, size_t bytes, enum cudaMemcpyKind kind,
                            cudaStream_t stream) {
  copy_t copy = {.dst = dst, .src = src, .bytes = bytes};
  cuda_capture_status_t status = CUDA_CAPTURE_NONE;
  cuda_result_t result = begin(&copy, kind);
  if (result == CUDA_RESULT_OK) result = cuStreamIsCapturing(stream, &status);
  if (result != CUDA_RESULT_OK || bytes == 0) return runtime_end(result);
  if (status != CUDA_CAPTURE_NONE) return runtime_end(queue(&copy, stream));
  bool writes = copy.dst_memory == RUNTIME_PLAIN;
  bool stages = copy.src_memory == RUNTIME_PLAIN && !writes;
  result = stages ? queue_staged(&copy, stream) : queue(&copy, stream);
  if (result == CUDA_RESULT_OK && writes) result = cuStreamSynchronize(stream);
  return runtime_end(result);
}

/* ---- between GPUs ----------------------------------------------------------------------------*/

static cuda_result_t queue_peer(void *dst, int dst_device, const void *src, int src_device,
                                size_t bytes, cudaStream_t stream) {
  cuda_context_t to, from;
  cuda_result_t result = runtime_enter();
  if (result == CUDA_RESULT_OK) result = runtime_context(dst_device, &to);
  if (result == CUDA_RESULT_OK) result = runtime_context(src_device, &from);
  if (result != CUDA_RESULT_OK || bytes == 0) return result;
  return cuMemcpyPeerAsync(runtime_address(dst), to, runtime_address(src), from, bytes, stream);
}

cudaError_t cudaMemcpyPeerAsync(void *dst, int dst_device, const void *src, int src_device,
                                size_t bytes, cudaStream_t stream) {
  return runtime_end(queue_peer(dst, dst_device, src, src_device, bytes, stream));
}

/* Waits for the work of a device. */
static cuda_result_t drain(int device) {
  cuda_context_t context;
  cuda_result_t result = runtime_context(device, &context);
  if (result == CUDA_RESULT_OK) result = cuCtxPushCurrent_v2(context);
  if (result != CUDA_RESULT_OK) return result;
  result = cuStreamSynchronize(NULL);
  (void)cuCtxPopCurrent_v2(&context);
  return result;
}

/* It is behind what both GPUs have to do, and before what they get to do: the host waits. */
cudaError_t cudaMemcpyPeer(void *dst, int dst_device, const void *src, int src_device,
                           size_t bytes) {
  cuda_result_t result = runtime_enter();
  if (result == CUDA_RESULT_OK) result = drain(dst_device);
  if (result == CUDA_RESULT_OK) result = drain(src_device);
  if (result == CUDA_RESULT_OK) {
    result = queue_peer(dst, dst_device, src, src_device, bytes, NULL);
  }
  return runtime_end(result == CUDA_RESULT_OK ? cuStreamSynchronize(NULL) : result);
}

/* ---- memset ----------------------------------------------------------------------------------*/

static cuda_result_t set(void *ptr, int value, size_t bytes, cudaStream_t stream) {
  if (bytes == 0) return CUDA_RESULT_OK;
  return cuMemsetD8Async(runtime_address(ptr), (unsigned char)value, bytes, stream);
}

cudaError_t cudaMemset(void *ptr, int value, size_t bytes) {
  runtime_memory_t memory;
  int device;
  cuda_result_t result = runtime_enter();
  if (result == CUDA_RESULT_OK) result = runtime_memory(ptr, &memory, &device);
  if (result == CUDA_RESULT_OK) result = set(ptr, value, bytes, NULL);
  if (result != CUDA_RESULT_OK || memory == RUNTIME_DEVICE) return runtime_end(result);
  return runtime_end(cuStreamSynchronize(NULL));
}

cudaError_t cudaMemsetAsync(void *ptr, int value, size_t bytes, cudaStream_t stream) {
  cuda_result_t result = runtime_enter();
  return runtime_end(result == CUDA_RESULT_OK ? set(ptr, value, bytes, stream) : result);
}
