/*
 * Attributes of pointers. Like the driver's, these need no context.
 */
#include "gpu/standin/state.h"

static cuda_memory_type_t type_of(const region_t *region) {
  if (region->kind == REGION_HOST || region->kind == REGION_REGISTERED) {
    return CUDA_MEMORY_TYPE_HOST;
  }
  return CUDA_MEMORY_TYPE_DEVICE;
}

/* region NULL: plain memory, of which everything is 0. */
static cuda_result_t answer(void *value, cuda_pointer_attribute_t attribute, const region_t *region,
                            cuda_ptr_t address) {
  bool host = region != NULL &&
              (type_of(region) == CUDA_MEMORY_TYPE_HOST || region->kind == REGION_MANAGED);
  switch (attribute) {
    case CUDA_POINTER_CONTEXT:
      *(cuda_context_t *)value = region == NULL ? NULL : region->context;
      break;
    case CUDA_POINTER_MEMORY_TYPE:
      *(unsigned *)value = region == NULL ? CUDA_MEMORY_TYPE_NONE : type_of(region);
      break;
    case CUDA_POINTER_DEVICE_POINTER: *(cuda_ptr_t *)value = region == NULL ? 0 : address; break;
    case CUDA_POINTER_HOST_POINTER:
      *(void **)value = host ? (void *)(uintptr_t)address : NULL;
      break;
    case CUDA_POINTER_BUFFER_ID:
      *(unsigned long long *)value = region == NULL ? 0 : region->id;
      break;
    case CUDA_POINTER_IS_MANAGED:
      *(unsigned *)value = region != NULL && region->kind == REGION_MANAGED;
      break;
    case CUDA_POINTER_DEVICE_ORDINAL:
      *(int *)value = region == NULL ? CUDA_DEVICE_NONE : region->device;
      break;
    case CUDA_POINTER_RANGE_START: *(cuda_ptr_t *)value = region == NULL ? 0 : region->base; break;
    case CUDA_POINTER_RANGE_SIZE: *(size_t *)value = region == NULL ? 0 : region->bytes; break;
    default: return CUDA_RESULT_INVALID_VALUE;
  }
  return CUDA_RESULT_OK;
}

static const region_t *known(cuda_ptr_t address) {
  const region_t *region = standin_region(address);
  return region == NULL || region->kind == REGION_RESERVED ? NULL : region;
}

cuda_result_t cuPointerGetAttribute(void *value, cuda_pointer_attribute_t attribute,
                                    cuda_ptr_t address) {
  cuda_result_t result = standin_enter();
  if (result != CUDA_RESULT_OK) return result;
  const region_t *region = known(address);
  if (region == NULL) return standin_leave(CUDA_RESULT_INVALID_VALUE);
  return standin_leave(answer(value, attribute, region, address));
}

cuda_result_t cuPointerGetAttributes(unsigned count, cuda_pointer_attribute_t *attributes,
                                     void **values, cuda_ptr_t address) {
  cuda_result_t result = standin_enter();
  if (result != CUDA_RESULT_OK) return result;
  const region_t *region = known(address);
  for (unsigned i = 0; i < count && result == CUDA_RESULT_OK; i++) {
    result = answer(values[i], attributes[i], region, address);
  }
  return standin_leave(result);
}
