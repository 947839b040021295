/*
 * The buffers of a call decide where it runs if it names no stream. The driver is asked only if it
 * is in the process.
 */
#include "api/gpu.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/names.h"
#include "device/cuda/pointer.h"
#include "device/cuda/share.h"
#include "offload/gpu.h"

typedef struct gpu_stream {
  struct coll_stream base;
  offload_stream_t on;
} gpu_stream_t;

base_handles_t api_gpu_streams = BASE_HANDLES(gpu_stream_t, "streams of GPUs");

static const offload_stream_t *on_gpu(coll_stream_t stream) {
  return &((const gpu_stream_t *)(const void *)stream)->on;
}

/* ---- buffers --------------------------------------------------------------------------------*/

/* The buffers of a call, as the driver knows them. */
typedef struct buffers {
  cuda_pointer_t send, recv;
} buffers_t;

static coll_status_t query_buffers(const run_call_t *call, buffers_t *buffers) {
  const cuda_driver_t *driver;
  COLL_TRY(cuda_driver_load(&driver));
  COLL_TRY(cuda_pointer_query(driver, call->send, &buffers->send));
  return cuda_pointer_query(driver, call->recv, &buffers->recv);
}

static const char *verb_of(const run_call_t *call) {
  if (call->kind == RUN_SEND) return "send";
  if (call->kind == RUN_RECV) return "recv";
  return base_collective_name(comm_traits_of(call->shape).collective);
}

static bool is_device(const buffers_t *buffers) {
  return buffers->send.kind == CUDA_KIND_DEVICE || buffers->recv.kind == CUDA_KIND_DEVICE;
}

static bool is_plain(const run_call_t *call, const void *buffer, cuda_pointer_t pointer) {
  return call->shape.count > 0 && buffer != NULL && pointer.kind == CUDA_KIND_PLAIN;
}

static coll_status_t check_accessible(const run_call_t *call, const buffers_t *buffers) {
  bool send = is_plain(call, call->send, buffers->send);
  if (!send && !is_plain(call, call->recv, buffers->recv)) return COLL_OK;
  return base_fail(COLL_ERROR_INVALID,
                   "%s on rank %d of %d: the %s buffer is plain memory of the host, which a GPU "
                   "cannot access: use memory of coll_mem_alloc, cudaMalloc, cudaHostAlloc "
                   "or cudaMallocManaged for all buffers of a call on a GPU",
                   verb_of(call), call->comm->rank, call->comm->size, send ? "send" : "recv");
}

/* Lets the call's GPU access a buffer that is memory of another one. */
static coll_status_t reach_buffer(const run_call_t *call, const void *buffer,
                                  cuda_pointer_t pointer, int device) {
  const cuda_driver_t *driver;
  cuda_share_t share;
  cuda_mapping_t mapping;
  int can = 0;
  if (pointer.kind != CUDA_KIND_DEVICE || pointer.device == device || call->shape.count == 0) {
    return COLL_OK;
  }
  COLL_TRY(cuda_driver_load(&driver));
  COLL_TRY(cuda_driver_check(driver, driver->cuDeviceCanAccessPeer(&can, device, pointer.device),
                             "cuDeviceCanAccessPeer", device));
  if (can == 0) {
    return base_fail(COLL_ERROR_INVALID,
                     "%s on rank %d of %d: the %s buffer is memory of GPU %d, which GPU %d, where "
                     "the call is, cannot access (see nvidia-smi topo -p2p r)",
                     verb_of(call), call->comm->rank, call->comm->size,
                     buffer == call->send ? "send" : "recv", pointer.device, device);
  }
  COLL_TRY(cuda_share_describe(driver, pointer.device, buffer, 1, &share));
  return cuda_share_open(driver, device, &share, &mapping);
}

static coll_status_t reach_buffers(const run_call_t *call, const buffers_t *buffers, int device) {
  COLL_TRY(reach_buffer(call, call->send, buffers->send, device));
  return reach_buffer(call, call->recv, buffers->recv, device);
}

static coll_status_t fail_host_stream(const run_call_t *call) {
  return base_fail(COLL_ERROR_INVALID,
                   "%s on rank %d of %d: device memory on a host stream: use a stream of "
                   "coll_stream_from_cuda, or none",
                   verb_of(call), call->comm->rank, call->comm->size);
}

/* One for each GPU, for calls on the communicator's own stream. */
#define OWN_STREAMS 64
static gpu_stream_t own_streams[OWN_STREAMS]; /* written once under own_once */
static pthread_once_t own_once = PTHREAD_ONCE_INIT;

static void make_own_streams(void) {
  for (int device = 0; device < OWN_STREAMS; device++) {
    api_stream_begin(&own_streams[device].base, API_STREAM_GPU);
    own_streams[device].on = (offload_stream_t){.is_own = true, .device = device};
  }
}

static coll_status_t own_stream_of(int device, coll_stream_t *stream) {
  if (device < 0 || device >= OWN_STREAMS) {
    return base_fail(COLL_ERROR_UNSUPPORTED, "GPU %d: at most %d GPUs of a process are supported",
                     device, OWN_STREAMS);
  }
  pthread_once(&own_once, make_own_streams);
  *stream = &own_streams[device].base;
  return COLL_OK;
}

/* No kernel moves blocks of each rank's own size. */
static coll_status_t check_collective(const run_call_t *call) {
  coll_collective_t collective = comm_traits_of(call->shape).collective;
  if (call->kind != RUN_COLLECTIVE || base_collective_is_on_gpus(collective)) return COLL_OK;
  return base_fail(COLL_ERROR_UNSUPPORTED,
                   "coll_%s on rank %d of %d: not supported on GPUs: use coll_alltoallv, or blocks "
                   "of equal size",
                   verb_of(call), call->comm->rank, call->comm->size);
}

/* A call without buffers and stream is where its communicator is, as on the other ranks, which may
 * have some. A barrier has none anywhere: it is on the host. */
static coll_status_t without_buffers(const run_call_t *call, coll_stream_t *stream) {
  bool is_barrier =
      call->kind == RUN_COLLECTIVE && comm_traits_of(call->shape).collective == COLL_BARRIER;
  if (*stream != NULL || is_barrier || !offload_is_connected(call->comm)) return COLL_OK;
  COLL_TRY(check_collective(call));
  return own_stream_of(offload_device(call->comm), stream);
}

coll_status_t api_gpu_resolve(const run_call_t *call, coll_stream_t *stream) {
  buffers_t buffers;
  bool named = *stream != NULL && api_stream_is_gpu(*stream);
  if (!named && !call->comm->near_gpu) return COLL_OK;
  if (!named && call->send == NULL && call->recv == NULL) return without_buffers(call, stream);
  COLL_TRY(query_buffers(call, &buffers));
  if (!named && !is_device(&buffers)) return COLL_OK;
  COLL_TRY(check_collective(call));
  COLL_TRY(check_accessible(call, &buffers));
  if (!named && *stream != NULL) return fail_host_stream(call);
  bool sends = buffers.send.kind == CUDA_KIND_DEVICE;
  if (!named) COLL_TRY(own_stream_of(sends ? buffers.send.device : buffers.recv.device, stream));
  return reach_buffers(call, &buffers, on_gpu(*stream)->device);
}

/* ---- calls ----------------------------------------------------------------------------------*/

coll_status_t api_gpu_queue(const run_call_t calls[], const coll_stream_t streams[], size_t count,
                            offload_stream_t on[]) {
  for (size_t i = 0; i < count; i++) on[i] = *on_gpu(streams[i]);
  return offload_queue(calls, on, count);
}

coll_status_t api_gpu_run(const run_call_t *call, coll_stream_t stream) {
  offload_stream_t on;
  coll_status_t status = api_gpu_queue(call, &stream, 1, &on);
  coll_status_t completed = offload_complete(call, &on, 1);
  return status == COLL_OK ? completed : status;
}

#define CUDA_STREAM_DEFAULT_MAX 2 /* of the handles of default streams: NULL, 1 and 2 */

/* ---- streams --------------------------------------------------------------------------------*/

/* Blocks of a call wait for each other, so they must all be on the GPU at once, and a communicator
 * counts on all multiprocessors. Those of a green context may be fewer than the blocks. */
static coll_status_t check_green(const cuda_driver_t *driver, int device, cuda_stream_t stream) {
  cuda_green_t green = NULL;
  if (driver->cuStreamGetGreenCtx == NULL) return COLL_OK; /* no program has green contexts */
  COLL_TRY(cuda_driver_check(driver, driver->cuStreamGetGreenCtx(stream, &green),
                             "cuStreamGetGreenCtx", device));
  if (green == NULL) return COLL_OK;
  return base_fail(COLL_ERROR_UNSUPPORTED,
                   "coll_stream_from_cuda: the stream is of a green context, whose "
                   "multiprocessors may not take all blocks of a call at once, which wait for each "
                   "other: use a stream of the primary context of GPU %d, and COLL_CUDA_BLOCKS to "
                   "give calls fewer multiprocessors",
                   device);
}

/* Kernels of this library are in the primary context of a GPU, and launches must be on streams of
 * theirs. The legacy and the thread's default stream are of whatever context is current. */
static coll_status_t check_contexts(const cuda_driver_t *driver, cuda_context_t current, int device,
                                    cuda_stream_t stream) {
  cuda_context_t primary, of_stream = current;
  COLL_TRY(cuda_driver_check(driver, driver->cuDevicePrimaryCtxRetain(&primary, device),
                             "cuDevicePrimaryCtxRetain", device));
  (void)driver->cuDevicePrimaryCtxRelease(device);
  if (primary != current) {
    return base_fail(COLL_ERROR_INVALID,
                     "coll_stream_from_cuda: this thread's CUDA context is not the primary one of "
                     "GPU %d, which the CUDA runtime uses: make that current (cudaSetDevice, or "
                     "cuDevicePrimaryCtxRetain and cuCtxSetCurrent)",
                     device);
  }
  if ((uintptr_t)stream > CUDA_STREAM_DEFAULT_MAX) {
    COLL_TRY(check_green(driver, device, stream));
    COLL_TRY(cuda_driver_check(driver, driver->cuStreamGetCtx(stream, &of_stream), "cuStreamGetCtx",
                               device));
  }
  if (of_stream == current) return COLL_OK;
  return base_fail(COLL_ERROR_INVALID,
                   "coll_stream_from_cuda: the stream is of another GPU or CUDA context than the "
                   "current one of this thread, which is that of GPU %d",
                   device);
}

coll_status_t coll_stream_from_cuda(void *cuda_stream, coll_stream_t *stream) {
  const cuda_driver_t *driver;
  gpu_stream_t *made = NULL;
  cuda_context_t context = NULL;
  cuda_device_t device;
  if (stream == NULL) return base_fail(COLL_ERROR_INVALID, "coll_stream_from_cuda: stream is NULL");
  COLL_TRY(cuda_driver_load(&driver));
  COLL_TRY(cuda_driver_check(driver, driver->cuCtxGetCurrent(&context), "cuCtxGetCurrent",
                             CUDA_NO_DEVICE));
  if (context == NULL) {
    return base_fail(COLL_ERROR_INVALID,
                     "coll_stream_from_cuda: this thread has no current CUDA context: call "
                     "cudaSetDevice, or cuCtxSetCurrent, first");
  }
  COLL_TRY(
      cuda_driver_check(driver, driver->cuCtxGetDevice(&device), "cuCtxGetDevice", CUDA_NO_DEVICE));
  COLL_TRY(check_contexts(driver, context, device, cuda_stream));
  COLL_TRY(base_handles_new(&api_gpu_streams, (void **)&made));
  made->on = (offload_stream_t){.device = device, .stream = cuda_stream};
  api_stream_begin(&made->base, API_STREAM_GPU);
  *stream = &made->base;
  return COLL_OK;
}

static coll_status_t ask_driver(coll_stream_t stream, bool waits) {
  const offload_stream_t *on = on_gpu(stream);
  const cuda_driver_t *driver;
  COLL_TRY(cuda_driver_load(&driver));
  cuda_capture_mode_t mode;
  COLL_TRY(cuda_context_enter_relaxed(driver, on->device, &mode));
  cuda_result_t result =
      waits ? driver->cuStreamSynchronize(on->stream) : driver->cuStreamQuery(on->stream);
  cuda_context_leave_relaxed(driver, on->device, mode);
  if (result == CUDA_RESULT_NOT_READY) return COLL_IN_PROGRESS;
  return cuda_driver_check(driver, result, waits ? "cuStreamSynchronize" : "cuStreamQuery",
                           on->device);
}

coll_status_t api_gpu_stream_query(coll_stream_t stream) {
  return ask_driver(stream, false);
}

coll_status_t api_gpu_stream_sync(coll_stream_t stream) {
  return ask_driver(stream, true);
}

coll_status_t api_gpu_stream_destroy(coll_stream_t stream) {
  base_handles_free(&api_gpu_streams, stream);
  return COLL_OK;
}
