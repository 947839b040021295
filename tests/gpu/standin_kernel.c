/* Registers host functions for the kernels: the one runs each launch on the virtual GPU, the other,
 * which waits for nothing, block by block. */
#include "gpu/standin_kernel.h"

#include <stdio.h>
#include <stdlib.h>

#include "device/cuda/compute_kernel.h"
#include "device/cuda/copy.h"
#include "device/cuda/image.h"
#include "gpu/virtual.h"

/* What image.c looks for. The stand-in does not read it. */
extern STANDIN_API const char coll_cuda_image[];
const char coll_cuda_image[] = "the kernel of the stand-in";

static virtual_device_t devices[STANDIN_GPUS_MAX];
static unsigned launches;

static void run(const standin_launch_t *launch) {
  unsigned number = __atomic_fetch_add(&launches, 1, __ATOMIC_RELAXED);
  const char *text = getenv("COLL_STANDIN_SEED");
  uint64_t seed = text == NULL ? 1 : strtoull(text, NULL, 10);
  virtual_launch(&devices[launch->device], launch->arguments[0], launch->grid[0],
                 seed * 1000003 + number);
}

static void compute(const standin_launch_t *launch) {
  _Alignas(GPU_LINE) char shared[GPU_VIRTUAL_SHARED];
  for (unsigned block = 0; block < launch->grid[0]; block++) {
    gpu_virtual = (gpu_virtual_thread_t){
        .block = block, .blocks = launch->grid[0], .threads = 1, .shared = shared};
    gpu_compute_kernel(*(const gpu_compute_t *)launch->arguments[0]);
  }
}

int standin_kernel_launches(void) {
  return (int)__atomic_load_n(&launches, __ATOMIC_RELAXED);
}

__attribute__((constructor)) static void start(void) {
  const size_t bytes[] = {sizeof(gpu_call_t)}, compute_bytes[] = {sizeof(gpu_compute_t)};
  uint32_t resident = STANDIN_MULTIPROCESSORS * (STANDIN_MULTIPROCESSOR_THREADS / GPU_THREADS_MAX);
  for (int i = 0; i < STANDIN_GPUS_MAX; i++) virtual_device_init(&devices[i], resident);
  if (standin_kernel_register(CUDA_KERNEL_NAME, run, 1, bytes) &&
      standin_kernel_register(CUDA_COPY_KERNEL, compute, 1, compute_bytes)) {
    return;
  }
  fputs("the stand-in has no room for another kernel\n", stderr);
  abort();
}
