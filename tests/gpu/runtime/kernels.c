/*
 * Kernels of programs. There is no GPU to run them: they are registered, so that programs can be
 * loaded, and refused when they are launched, with their names on standard error.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/runtime/refused.h"
#include "gpu/runtime/runtime.h"

#define PUBLIC __attribute__((visibility("default")))

/* Compilers make calls of these; NVIDIA's header declares them for C++. */
PUBLIC void **__cudaRegisterFatBinary(void *binary);
PUBLIC void __cudaRegisterFatBinaryEnd(void **handle);
PUBLIC void __cudaUnregisterFatBinary(void **handle);
PUBLIC void __cudaRegisterFunction(void **handle, const char *stub, char *function,
                                   const char *name);
PUBLIC void __cudaRegisterVar(void **handle);
PUBLIC unsigned __cudaPushCallConfiguration(struct dim3 grid, struct dim3 block, size_t shared,
                                            struct CUstream_st *stream);
PUBLIC cudaError_t __cudaPopCallConfiguration(struct dim3 *grid, struct dim3 *block, size_t *shared,
                                              void *stream);
PUBLIC cudaError_t __cudaGetKernel(cudaKernel_t *kernel, const void *stub);
PUBLIC cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, struct dim3 grid, struct dim3 block,
                                      void **arguments, size_t shared, cudaStream_t stream);

typedef struct kernel {
  const void *stub; /* that the program calls to launch it; its handle, too */
  const char *name; /* of the program */
} kernel_t;

typedef struct configuration {
  struct dim3 grid, block;
  size_t shared;
  cudaStream_t stream;
} configuration_t;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static kernel_t *kernels;
static size_t kernel_count, kernel_capacity;
static _Thread_local configuration_t pushed;
static char fat_binary;

/* ---- registration, by constructors of the program --------------------------------------------*/

void **__cudaRegisterFatBinary(void *binary) {
  static void *handle = &fat_binary;
  (void)binary;
  return &handle;
}

void __cudaRegisterFatBinaryEnd(void **handle) {
  (void)handle;
}

void __cudaUnregisterFatBinary(void **handle) {
  (void)handle;
}

void __cudaRegisterVar(void **handle) {
  (void)handle;
}

/* Those that find no memory have no name. */
void __cudaRegisterFunction(void **handle, const char *stub, char *function, const char *name) {
  (void)handle;
  (void)function;
  pthread_mutex_lock(&lock);
  if (kernel_count == kernel_capacity) {
    size_t capacity = kernel_capacity > 0 ? 2 * kernel_capacity : 1024;
    kernel_t *more = realloc(kernels, capacity * sizeof *more);
    if (more != NULL) {
      kernels = more;
      kernel_capacity = capacity;
    }
  }
  if (kernel_count < kernel_capacity) kernels[kernel_count++] = (kernel_t){stub, name};
  pthread_mutex_unlock(&lock);
}

__attribute__((destructor)) static void end(void) {
  free(kernels);
  kernels = NULL;
  kernel_count = kernel_capacity = 0;
}

/* ---- launches --------------------------------------------------------------------------------*/

static const char *name_of(const void *stub) {
  const char *name = "without a name";
  pthread_mutex_lock(&lock);
  for (size_t i = 0; i < kernel_count; i++) {
    if (kernels[i].stub == stub) name = kernels[i].name;
  }
  pthread_mutex_unlock(&lock);
  return name;
}

unsigned __cudaPushCallConfiguration(struct dim3 grid, struct dim3 block, size_t shared,
                                     struct CUstream_st *stream) {
  pushed = (configuration_t){grid, block, shared, stream};
  return 0;
}

cudaError_t __cudaPopCallConfiguration(struct dim3 *grid, struct dim3 *block, size_t *shared,
                                       void *stream) {
  *grid = pushed.grid;
  *block = pushed.block;
  *shared = pushed.shared;
  *(cudaStream_t *)stream = pushed.stream;
  return cudaSuccess;
}

cudaError_t __cudaGetKernel(cudaKernel_t *kernel, const void *stub) {
  memcpy(kernel, &stub, sizeof stub);
  return cudaSuccess;
}

cudaError_t cudaLaunchKernel(const void *stub, struct dim3 grid, struct dim3 block,
                             void **arguments, size_t shared, cudaStream_t stream) {
  (void)grid;
  (void)block;
  (void)arguments;
  (void)shared;
  (void)stream;
  return (cudaError_t)runtime_refuse(name_of(stub));
}

cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, struct dim3 grid, struct dim3 block,
                               void **arguments, size_t shared, cudaStream_t stream) {
  return cudaLaunchKernel(kernel, grid, block, arguments, shared, stream);
}
