/*
 * What the tests of the runtime share.
 */
#ifndef TESTS_GPU_RUNTIME_CHECKS_H
#define TESTS_GPU_RUNTIME_CHECKS_H

#include <criterion/criterion.h>
#include <cuda_runtime_api.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/standin/standin.h"

/* The call of the runtime returns that error. */
#define CUDA_RETURNS(expected, call)                                   \
  do {                                                                 \
    cudaError_t cuda_error = (call);                                   \
    cr_assert(cuda_error == (expected), "%s: %s instead of %s", #call, \
              cudaGetErrorName(cuda_error), #expected);                \
  } while (0)
#define CUDA_OK(call) CUDA_RETURNS(cudaSuccess, call)

/* Nothing is left but the contexts of so many GPUs, and nothing was done that CUDA leaves
 * undefined. */
static inline void cuda_expect_clean(int contexts) {
  char text[256];
  CUDA_OK(cudaDeviceSynchronize());
  cr_assert(standin_leaks(text, sizeof text) == contexts, "%s", text);
  cr_assert(standin_misuses() == 0);
}

static inline void cuda_setting(const char *name, const char *value) {
  cr_assert(setenv(name, value, 1) == 0);
}

/* Memory of the current device with the bytes first, first + 1, ... */
static inline unsigned char *cuda_bytes(size_t bytes, int first) {
  unsigned char *host = malloc(bytes), *device;
  for (size_t i = 0; i < bytes; i++) host[i] = (unsigned char)(first + (int)i);
  CUDA_OK(cudaMalloc((void **)&device, bytes));
  CUDA_OK(cudaMemcpy(device, host, bytes, cudaMemcpyHostToDevice));
  free(host);
  return device;
}

/* Whether the memory, of any kind, has the bytes first, first + 1, ... */
static inline int cuda_holds(const void *memory, size_t bytes, int first) {
  unsigned char *host = malloc(bytes);
  int is_equal = 1;
  CUDA_OK(cudaMemcpy(host, memory, bytes, cudaMemcpyDefault));
  for (size_t i = 0; i < bytes; i++) is_equal &= host[i] == (unsigned char)(first + (int)i);
  free(host);
  return is_equal;
}

#endif
