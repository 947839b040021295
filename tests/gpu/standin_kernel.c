/* Registers host functions for the kernels: those that run a call run each launch on the virtual
 * GPU, those that compute, which wait for nothing, block by block. */
#include "gpu/standin_kernel.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/names.h"
#include "device/cuda/compute_kernel.h"
#include "device/cuda/image.h"
#include "gpu/virtual.h"

/* What image.c looks for. The stand-in does not read what the places say. */
extern STANDIN_API const int64_t coll_cuda_image[];
const int64_t coll_cuda_image[COLL_DTYPE_COUNT * GPU_OPS_COUNT] = {sizeof coll_cuda_image};

enum { NAME_BYTES = 48 };

static virtual_device_t devices[STANDIN_GPUS_MAX];
static unsigned launches;

static void name_kernel(char name[NAME_BYTES], const char *what, int dtype, gpu_ops_t ops) {
  snprintf(name, NAME_BYTES, "%s_%s_%s", what, base_dtype_name((coll_dtype_t)dtype),
           gpu_ops_name(ops));
}

/* The virtual GPU's kernel serves every dtype and operation, unlike those of a GPU. */
static void check_name(const standin_launch_t *launch, const char *what, int dtype, int op) {
  char name[NAME_BYTES];
  name_kernel(name, what, dtype, gpu_ops_of(op));
  if (strcmp(name, launch->name) == 0) return;
  fprintf(stderr, "%s was launched for a call of %s\n", launch->name, name);
  abort();
}

static void run(const standin_launch_t *launch) {
  const gpu_call_t *call = launch->arguments[0];
  unsigned number = __atomic_fetch_add(&launches, 1, __ATOMIC_RELAXED);
  const char *text = getenv("COLL_STANDIN_SEED");
  uint64_t seed = text == NULL ? 1 : strtoull(text, NULL, 10);
  check_name(launch, "gpu_run", call->dtype, call->op);
  virtual_launch(&devices[launch->device], call, launch->grid[0], seed * 1000003 + number);
}

static void compute(const standin_launch_t *launch) {
  const gpu_compute_t *work = launch->arguments[0];
  _Alignas(GPU_LINE) char shared[GPU_VIRTUAL_SHARED];
  check_name(launch, "gpu_compute", work->dtype, work->op);
  for (unsigned block = 0; block < launch->grid[0]; block++) {
    gpu_virtual = (gpu_virtual_thread_t){
        .block = block, .blocks = launch->grid[0], .threads = 1, .shared = shared};
    gpu_compute_kernel(*work);
  }
}

int standin_kernel_launches(void) {
  return (int)__atomic_load_n(&launches, __ATOMIC_RELAXED);
}

static bool register_kernels(const char *what, standin_kernel_t kernel, size_t argument_bytes) {
  static char names[2][COLL_DTYPE_COUNT][GPU_OPS_COUNT][NAME_BYTES];
  static int used;
  char(*own)[GPU_OPS_COUNT][NAME_BYTES] = names[used++];
  bool done = true;
  for (int dtype = 0; dtype < COLL_DTYPE_COUNT; dtype++) {
    for (int ops = 0; ops < GPU_OPS_COUNT; ops++) {
      name_kernel(own[dtype][ops], what, dtype, (gpu_ops_t)ops);
      done = done && standin_kernel_register(own[dtype][ops], kernel, 1, &argument_bytes);
    }
  }
  return done;
}

__attribute__((constructor)) static void start(void) {
  uint32_t resident = STANDIN_MULTIPROCESSORS * (STANDIN_MULTIPROCESSOR_THREADS / GPU_THREADS_MAX);
  for (int i = 0; i < STANDIN_GPUS_MAX; i++) virtual_device_init(&devices[i], resident);
  if (register_kernels("gpu_run", run, sizeof(gpu_call_t)) &&
      register_kernels("gpu_compute", compute, sizeof(gpu_compute_t))) {
    return;
  }
  fputs("the stand-in has no room for another kernel\n", stderr);
  abort();
}
