/* The functions of the driver are found once for the process, each by the symbol that has the
 * prototype below. */
#include "bench/gpu.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "bench/collectives.h"
#include "coll_gpu.h"

#define DRIVER "libcuda.so.1"
#define CAPTURE_THREAD_LOCAL 1  /* CU_STREAM_CAPTURE_MODE_THREAD_LOCAL */
#define PEER_ACCESS_ENABLED 704 /* CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED */
#define STREAM_NON_BLOCKING 1   /* CU_STREAM_NON_BLOCKING */

typedef int result_t;       /* CUresult; 0: success */
typedef uint64_t address_t; /* CUdeviceptr */
typedef int (*untyped_t)(void);

#define FUNCTIONS(X)                                                                          \
  X(cuInit, cuInit, (unsigned flags))                                                         \
  X(cuGetErrorName, cuGetErrorName, (result_t result, const char **name))                     \
  X(cuDeviceGetCount, cuDeviceGetCount, (int *count))                                         \
  X(cuDeviceGet, cuDeviceGet, (int *device, int ordinal))                                     \
  X(cuDeviceGetName, cuDeviceGetName, (char *name, int bytes, int device))                    \
  X(cuDevicePrimaryCtxRetain, cuDevicePrimaryCtxRetain, (void **context, int device))         \
  X(cuDevicePrimaryCtxRelease, cuDevicePrimaryCtxRelease_v2, (int device))                    \
  X(cuCtxSetCurrent, cuCtxSetCurrent, (void *context))                                        \
  X(cuCtxEnablePeerAccess, cuCtxEnablePeerAccess, (void *peer, unsigned flags))               \
  X(cuMemAlloc, cuMemAlloc_v2, (address_t * address, size_t bytes))                           \
  X(cuMemFree, cuMemFree_v2, (address_t address))                                             \
  X(cuMemHostAlloc, cuMemHostAlloc, (void **memory, size_t bytes, unsigned flags))            \
  X(cuMemFreeHost, cuMemFreeHost, (void *memory))                                             \
  X(cuMemcpyAsync, cuMemcpyAsync, (address_t to, address_t from, size_t bytes, void *stream)) \
  X(cuStreamCreateWithPriority, cuStreamCreateWithPriority,                                   \
    (void **stream, unsigned flags, int priority))                                            \
  X(cuStreamDestroy, cuStreamDestroy_v2, (void *stream))                                      \
  X(cuStreamSynchronize, cuStreamSynchronize, (void *stream))

/* Only graphs need them. */
#define GRAPH_FUNCTIONS(X)                                                   \
  X(cuStreamBeginCapture, cuStreamBeginCapture_v2, (void *stream, int mode)) \
  X(cuStreamEndCapture, cuStreamEndCapture, (void *stream, void **graph))    \
  X(cuGraphInstantiate, cuGraphInstantiateWithFlags,                         \
    (void **executable, void *graph, unsigned long long flags))              \
  X(cuGraphLaunch, cuGraphLaunch, (void *executable, void *stream))          \
  X(cuGraphExecDestroy, cuGraphExecDestroy, (void *executable))              \
  X(cuGraphDestroy, cuGraphDestroy, (void *graph))

static struct driver {
#define MEMBER(name, symbol, parameters) result_t(*name) parameters;
  FUNCTIONS(MEMBER)
  GRAPH_FUNCTIONS(MEMBER)
#undef MEMBER
} driver;

static pthread_once_t once = PTHREAD_ONCE_INIT;
static char failure[256]; /* "": the driver is there */
static int gpu_count;

/* A union, as C has no conversion from an object pointer to a function pointer. */
static untyped_t find(void *library, const char *symbol) {
  union {
    void *object;
    untyped_t function;
  } found = {.object = dlsym(library, symbol)};
  return found.function;
}

static void find_all(void *library, const char **missing) {
  untyped_t found;
#define FIND(name, symbol, parameters)              \
  found = find(library, #symbol);                   \
  memcpy(&driver.name, &found, sizeof driver.name); \
  if (found == NULL && *missing == NULL) *missing = #symbol;
  FUNCTIONS(FIND)
  const char *ignored = "";
  missing = &ignored;
  GRAPH_FUNCTIONS(FIND)
#undef FIND
}

/* Each rank of a process has streams, whose kernels wait for those of other ranks. The driver puts
 * the streams of a GPU into 8 queues unless it is told otherwise before it starts, and in a queue a
 * launch that waits for its stream holds up those behind it. */
static void ask_for_queues(void) {
  setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
}

static void load(void) {
  const char *missing = NULL;
  void *library = dlopen(DRIVER, RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) {
    snprintf(failure, sizeof failure, "NVIDIA's driver cannot be loaded: %s", dlerror());
    return;
  }
  ask_for_queues();
  find_all(library, &missing);
  if (missing != NULL) {
    snprintf(failure, sizeof failure, "%s has no function %s", DRIVER, missing);
  } else if (driver.cuInit(0) != 0 || driver.cuDeviceGetCount(&gpu_count) != 0 || gpu_count == 0) {
    snprintf(failure, sizeof failure, "NVIDIA's driver finds no GPU that this process may use");
  }
}

coll_status_t bench_gpu_count(int *count) {
  pthread_once(&once, load);
  if (failure[0] != '\0') return base_fail(COLL_ERROR_UNSUPPORTED, "%s", failure);
  *count = gpu_count;
  return COLL_OK;
}

static coll_status_t check(result_t result, const char *function) {
  const char *name = NULL;
  if (result == 0) return COLL_OK;
  if (driver.cuGetErrorName(result, &name) != 0 || name == NULL) name = "unknown error";
  return base_fail(COLL_ERROR_SYSTEM, "%s: %s (%d)", function, name, result);
}

#define CALL(function, ...) check(driver.function(__VA_ARGS__), #function)

coll_status_t bench_gpu_select(const bench_gpu_t *gpu) {
  return CALL(cuCtxSetCurrent, gpu->context);
}

bool bench_gpu_reach(const bench_gpu_t *other) {
  result_t result = driver.cuCtxEnablePeerAccess(other->context, 0);
  return result == 0 || result == PEER_ACCESS_ENABLED;
}

coll_status_t bench_gpu_open(int index, bench_gpu_t *gpu) {
  int count = 1;
  bench_gpu_t opened = {0};
  COLL_TRY(bench_gpu_count(&count));
  COLL_TRY(CALL(cuDeviceGet, &opened.device, index % count));
  COLL_TRY(CALL(cuDevicePrimaryCtxRetain, &opened.context, opened.device));
  coll_status_t status = bench_gpu_select(&opened);
  if (status == COLL_OK) {
    status = CALL(cuStreamCreateWithPriority, &opened.stream, STREAM_NON_BLOCKING, 0);
  }
  if (status != COLL_OK) {
    (void)driver.cuDevicePrimaryCtxRelease(opened.device);
    return status;
  }
  *gpu = opened;
  return COLL_OK;
}

void bench_gpu_close(bench_gpu_t *gpu) {
  if (gpu->stream == NULL) return;
  (void)driver.cuStreamSynchronize(gpu->stream);
  if (gpu->staging != NULL) (void)driver.cuMemFreeHost(gpu->staging);
  (void)driver.cuStreamDestroy(gpu->stream);
  (void)driver.cuCtxSetCurrent(NULL);
  (void)driver.cuDevicePrimaryCtxRelease(gpu->device);
  *gpu = (bench_gpu_t){0};
}

coll_status_t bench_gpu_name(const bench_gpu_t *gpu, char *name, int bytes) {
  return CALL(cuDeviceGetName, name, bytes, gpu->device);
}

coll_status_t bench_gpu_stage(bench_gpu_t *gpu, size_t bytes) {
  void *memory;
  if (bytes <= gpu->staging_bytes) return COLL_OK;
  COLL_TRY(CALL(cuMemHostAlloc, &memory, bytes, 0));
  if (gpu->staging != NULL) (void)driver.cuMemFreeHost(gpu->staging);
  gpu->staging = memory;
  gpu->staging_bytes = bytes;
  return COLL_OK;
}

/* ---- memory ----------------------------------------------------------------------------------*/

static address_t address_of(const void *memory) {
  return (address_t)(uintptr_t)memory;
}

coll_status_t bench_gpu_alloc(size_t bytes, void **memory) {
  address_t address;
  COLL_TRY(CALL(cuMemAlloc, &address, bytes));
  *memory = (void *)(uintptr_t)address;
  return COLL_OK;
}

void bench_gpu_free(void *memory) {
  if (memory != NULL) (void)driver.cuMemFree(address_of(memory));
}

coll_status_t bench_gpu_queue_copy(const bench_gpu_t *gpu, void *to, const void *from,
                                   size_t bytes) {
  if (bytes == 0) return COLL_OK;
  return CALL(cuMemcpyAsync, address_of(to), address_of(from), bytes, gpu->stream);
}

coll_status_t bench_gpu_sync(const bench_gpu_t *gpu) {
  return CALL(cuStreamSynchronize, gpu->stream);
}

coll_status_t bench_gpu_copy(const bench_gpu_t *gpu, void *to, const void *from, size_t bytes) {
  COLL_TRY(bench_gpu_queue_copy(gpu, to, from, bytes));
  return bench_gpu_sync(gpu);
}

coll_status_t bench_gpu_upload(const bench_gpu_t *gpu, void *to, size_t bytes) {
  return bench_gpu_copy(gpu, to, gpu->staging, bytes);
}

coll_status_t bench_gpu_download(const bench_gpu_t *gpu, const void *from, size_t bytes) {
  return bench_gpu_copy(gpu, gpu->staging, from, bytes);
}

coll_status_t bench_gpu_stream(const bench_gpu_t *gpu, coll_stream_t *stream) {
  return bench_take_error(NULL, coll_stream_from_cuda(gpu->stream, stream));
}

/* ---- graphs ----------------------------------------------------------------------------------*/

coll_status_t bench_gpu_capture(const bench_gpu_t *gpu) {
  if (driver.cuStreamBeginCapture == NULL || driver.cuGraphInstantiate == NULL) {
    return base_fail(COLL_ERROR_UNSUPPORTED, "%s has no functions for graphs", DRIVER);
  }
  return CALL(cuStreamBeginCapture, gpu->stream, CAPTURE_THREAD_LOCAL);
}

coll_status_t bench_gpu_end_capture(const bench_gpu_t *gpu, bench_graph_t *graph) {
  bench_graph_t made = {0};
  COLL_TRY(CALL(cuStreamEndCapture, gpu->stream, &made.graph));
  coll_status_t status = CALL(cuGraphInstantiate, &made.executable, made.graph, 0);
  if (status != COLL_OK) {
    (void)driver.cuGraphDestroy(made.graph);
    return status;
  }
  *graph = made;
  return COLL_OK;
}

void bench_gpu_drop_capture(const bench_gpu_t *gpu) {
  void *graph = NULL;
  if (driver.cuStreamEndCapture(gpu->stream, &graph) == 0 && graph != NULL) {
    (void)driver.cuGraphDestroy(graph);
  }
}

coll_status_t bench_gpu_launch(const bench_gpu_t *gpu, const bench_graph_t *graph) {
  return CALL(cuGraphLaunch, graph->executable, gpu->stream);
}

void bench_gpu_free_graph(bench_graph_t *graph) {
  if (graph->executable != NULL) (void)driver.cuGraphExecDestroy(graph->executable);
  if (graph->graph != NULL) (void)driver.cuGraphDestroy(graph->graph);
  *graph = (bench_graph_t){0};
}
