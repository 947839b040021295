/*
 * CUDA's driver: two of its functions, by the interface of its reference manual.
 */
#include "frontends/nccl/driver.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define MEMORY_TYPE 2 /* CU_POINTER_ATTRIBUTE_MEMORY_TYPE */
#define IS_MANAGED 8  /* CU_POINTER_ATTRIBUTE_IS_MANAGED */
#define TYPE_DEVICE 2 /* CU_MEMORYTYPE_DEVICE */

typedef int (*pointer_attribute_t)(void *value, int attribute, uintptr_t ptr);
typedef int (*context_device_t)(int *device);

static _Atomic(pointer_attribute_t) pointer_attribute;
static _Atomic(context_device_t) context_device;

/* dlsym returns an object pointer; ISO C has no cast from that to a function. */
static void look_up(void *library, const char *name, void *function, size_t bytes) {
  void *found = dlsym(library, name);
  memcpy(function, &found, bytes);
}

static void find_driver(void) {
  pointer_attribute_t attribute;
  context_device_t device;
  void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  if (library == NULL) return;
  look_up(library, "cuPointerGetAttribute", &attribute, sizeof attribute);
  look_up(library, "cuCtxGetDevice", &device, sizeof device);
  atomic_store(&pointer_attribute, attribute);
  atomic_store(&context_device, device);
  /* The handle is kept: what was found must stay loaded. */
}

int nccl_driver_device(void) {
  int device = 0;
  if (atomic_load(&context_device) == NULL) find_driver();
  context_device_t ask = atomic_load(&context_device);
  return ask != NULL && ask(&device) == 0 ? device : 0;
}

bool nccl_driver_owns(const void *ptr) {
  unsigned type = 0, managed = 0;
  pointer_attribute_t ask = atomic_load_explicit(&pointer_attribute, memory_order_acquire);
  if (ask == NULL || ptr == NULL) return false;
  if (ask(&type, MEMORY_TYPE, (uintptr_t)ptr) != 0 || type != TYPE_DEVICE) return false;
  return ask(&managed, IS_MANAGED, (uintptr_t)ptr) != 0 || managed == 0;
}
