/*
 * Stands in for CUDA's driver where the front end asks whose memory an address is: two pages of a
 * test's choice are a GPU's, one of them managed.
 */
#include <stddef.h>
#include <stdint.h>

#define PUBLIC __attribute__((visibility("default")))
#define BYTES 64

PUBLIC char *standin_device_memory, *standin_managed_memory;

PUBLIC int cuPointerGetAttribute(void *value, int attribute, uintptr_t ptr);
PUBLIC int cuCtxGetDevice(int *device);

static int is_in(uintptr_t ptr, const char *memory) {
  return memory != NULL && ptr >= (uintptr_t)memory && ptr < (uintptr_t)memory + BYTES;
}

int cuPointerGetAttribute(void *value, int attribute, uintptr_t ptr) {
  int managed = is_in(ptr, standin_managed_memory);
  if (!managed && !is_in(ptr, standin_device_memory)) return 1; /* CUDA_ERROR_INVALID_VALUE */
  *(unsigned *)value = attribute == 8 ? (unsigned)managed : 2;
  return 0;
}

int cuCtxGetDevice(int *device) {
  *device = 0;
  return 0;
}
