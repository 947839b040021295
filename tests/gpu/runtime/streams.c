/*
 * Streams, events, and graphs of captured streams: the driver's, after the start of a call.
 */
#include <stdatomic.h>
#include <stdlib.h>

#include "gpu/runtime/runtime.h"

/* Begins a call, and ends it with what the driver's function returns. */
#define FORWARD(call)                                    \
  do {                                                   \
    cuda_result_t forwarded = runtime_enter();           \
    if (forwarded == CUDA_RESULT_OK) forwarded = (call); \
    return runtime_end(forwarded);                       \
  } while (0)

cudaError_t cudaStreamCreateWithPriority(cudaStream_t *stream, unsigned flags, int priority) {
  FORWARD(cuStreamCreateWithPriority(stream, flags, priority));
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags) {
  FORWARD(cuStreamCreateWithPriority(stream, flags, 0));
}

cudaError_t cudaStreamCreate(cudaStream_t *stream) {
  FORWARD(cuStreamCreateWithPriority(stream, cudaStreamDefault, 0));
}

/* Priorities make no difference here. */
cudaError_t cudaStreamGetPriority(cudaStream_t stream, int *priority) {
  (void)stream;
  cuda_result_t result = runtime_enter();
  if (result == CUDA_RESULT_OK) *priority = 0;
  return runtime_end(result);
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  FORWARD(cuStreamDestroy_v2(stream));
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  FORWARD(cuStreamSynchronize(stream));
}

cudaError_t cudaStreamQuery(cudaStream_t stream) {
  FORWARD(cuStreamQuery(stream));
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags) {
  FORWARD(cuStreamWaitEvent(stream, event, flags));
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void *context) {
  FORWARD(cuLaunchHostFunc(stream, function, context));
}

/* ---- events ----------------------------------------------------------------------------------*/

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags) {
  FORWARD(cuEventCreate(event, flags));
}

cudaError_t cudaEventCreate(cudaEvent_t *event) {
  FORWARD(cuEventCreate(event, cudaEventDefault));
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  FORWARD(cuEventDestroy_v2(event));
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  FORWARD(cuEventRecord(event, stream));
}

cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned flags) {
  FORWARD(cuEventRecordWithFlags(event, stream, flags));
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  FORWARD(cuEventQuery(event));
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  FORWARD(cuEventSynchronize(event));
}

cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t start, cudaEvent_t end) {
  FORWARD(cuEventElapsedTime(ms, start, end));
}

/* ---- captures and graphs ---------------------------------------------------------------------*/

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, enum cudaStreamCaptureMode mode) {
  FORWARD(cuStreamBeginCapture_v2(stream, (cuda_capture_mode_t)mode));
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph) {
  FORWARD(cuStreamEndCapture(stream, graph));
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, enum cudaStreamCaptureStatus *status) {
  cuda_capture_status_t found = CUDA_CAPTURE_NONE;
  cuda_result_t result = runtime_enter();
  if (result == CUDA_RESULT_OK) result = cuStreamIsCapturing(stream, &found);
  if (result == CUDA_RESULT_OK) *status = (enum cudaStreamCaptureStatus)found;
  return runtime_end(result);
}

/* Edges between nodes have no data here. */
cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream, enum cudaStreamCaptureStatus *status,
                                     unsigned long long *id, cudaGraph_t *graph,
                                     const cudaGraphNode_t **dependencies,
                                     const cudaGraphEdgeData **edges, size_t *count) {
  cuda_capture_status_t found = CUDA_CAPTURE_NONE;
  uint64_t number = 0;
  cuda_result_t result = runtime_enter();
  if (edges != NULL) *edges = NULL;
  if (result == CUDA_RESULT_OK) {
    result = cuStreamGetCaptureInfo_v2(stream, &found, &number, graph, dependencies, count);
  }
  if (result == CUDA_RESULT_OK) *status = (enum cudaStreamCaptureStatus)found;
  if (result == CUDA_RESULT_OK && id != NULL) *id = number;
  return runtime_end(result);
}

cudaError_t cudaThreadExchangeStreamCaptureMode(enum cudaStreamCaptureMode *mode) {
  cuda_capture_mode_t exchanged = (cuda_capture_mode_t)*mode;
  cuda_result_t result = runtime_start();
  if (result == CUDA_RESULT_OK) result = cuThreadExchangeStreamCaptureMode(&exchanged);
  if (result == CUDA_RESULT_OK) *mode = (enum cudaStreamCaptureMode)exchanged;
  return runtime_end(result);
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t *exec, cudaGraph_t graph,
                                 unsigned long long flags) {
  FORWARD(cuGraphInstantiateWithFlags(exec, graph, flags));
}

cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t *exec, cudaGraph_t graph,
                                          unsigned long long flags) {
  FORWARD(cuGraphInstantiateWithFlags(exec, graph, flags));
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream) {
  FORWARD(cuGraphLaunch(exec, stream));
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
  FORWARD(cuGraphExecDestroy(exec));
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  FORWARD(cuGraphDestroy(graph));
}

cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t *nodes, size_t *count) {
  FORWARD(cuGraphGetNodes(graph, nodes, count));
}

/* ---- objects that graphs keep ----------------------------------------------------------------*/

struct CUuserObject_st {
  void *context;
  cudaHostFn_t destroy;
  atomic_uint uses;
};

cudaError_t cudaUserObjectCreate(cudaUserObject_t *object, void *context, cudaHostFn_t destroy,
                                 unsigned uses, unsigned flags) {
  if (object == NULL || destroy == NULL || uses == 0 || flags != cudaUserObjectNoDestructorSync) {
    return runtime_end(CUDA_RESULT_INVALID_VALUE);
  }
  struct CUuserObject_st *made = malloc(sizeof *made);
  if (made == NULL) return runtime_end(CUDA_RESULT_OUT_OF_MEMORY);
  made->context = context;
  made->destroy = destroy;
  atomic_init(&made->uses, uses);
  *object = made;
  return cudaSuccess;
}

cudaError_t cudaUserObjectRelease(cudaUserObject_t object, unsigned uses) {
  if (atomic_fetch_sub(&object->uses, uses) > uses) return cudaSuccess;
  object->destroy(object->context);
  free(object);
  return cudaSuccess;
}

/* Graphs of the stand-in keep nothing: the object stays for good. */
cudaError_t cudaGraphRetainUserObject(cudaGraph_t graph, cudaUserObject_t object, unsigned uses,
                                      unsigned flags) {
  (void)graph;
  if (flags != cudaGraphUserObjectMove) atomic_fetch_add(&object->uses, uses);
  return cudaSuccess;
}
