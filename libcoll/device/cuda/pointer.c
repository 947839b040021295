/* Asks the driver for three attributes at once. */
#include "device/cuda/pointer.h"

coll_status_t cuda_pointer_query(const cuda_driver_t *driver, const void *ptr,
                                 cuda_pointer_t *pointer) {
  unsigned type = CUDA_MEMORY_TYPE_NONE, managed = 0;
  int device = CUDA_DEVICE_NONE;
  cuda_pointer_attribute_t attributes[] = {CUDA_POINTER_MEMORY_TYPE, CUDA_POINTER_IS_MANAGED,
                                           CUDA_POINTER_DEVICE_ORDINAL};
  void *values[] = {&type, &managed, &device};
  *pointer = (cuda_pointer_t){CUDA_KIND_PLAIN, CUDA_NO_DEVICE};
  if (ptr == NULL) return COLL_OK;
  cuda_result_t result =
      driver->cuPointerGetAttributes(3, attributes, values, (cuda_ptr_t)(uintptr_t)ptr);
  /* Some drivers return this for plain memory, and zeroes otherwise. */
  if (result == CUDA_RESULT_INVALID_VALUE) return COLL_OK;
  COLL_TRY(cuda_driver_check(driver, result, "cuPointerGetAttributes", CUDA_NO_DEVICE));
  if (type == CUDA_MEMORY_TYPE_NONE) return COLL_OK;
  pointer->device = device < 0 ? CUDA_NO_DEVICE : device;
  if (managed != 0) {
    pointer->kind = CUDA_KIND_MANAGED;
  } else {
    pointer->kind = type == CUDA_MEMORY_TYPE_HOST ? CUDA_KIND_PINNED : CUDA_KIND_DEVICE;
  }
  return COLL_OK;
}

bool cuda_pointer_is_device(const void *ptr) {
  const cuda_driver_t *driver;
  cuda_pointer_t pointer;
  return ptr != NULL && cuda_driver_is_present() && cuda_driver_load(&driver) == COLL_OK &&
         cuda_pointer_query(driver, ptr, &pointer) == COLL_OK && pointer.kind == CUDA_KIND_DEVICE;
}

const char *cuda_pointer_kind_name(cuda_pointer_kind_t kind) {
  static const char *const names[] = {"plain memory", "pinned memory", "device memory",
                                      "managed memory"};
  return names[kind];
}
