/*
 * Kinds of memory by address.
 */
#include "device/cuda/memory.h"
#include "device/cuda/pointer.h"
#include "gpu/gpu.h"

TestSuite(pointer, .timeout = 60);

static void expect(const void *ptr, cuda_pointer_kind_t kind, int device) {
  cuda_pointer_t pointer;
  GPU_OK(cuda_pointer_query(gpu_driver(), ptr, &pointer));
  cr_assert(pointer.kind == kind, "%s", cuda_pointer_kind_name(pointer.kind));
  cr_assert(pointer.device == device, "GPU %d", pointer.device);
}

/* From the first byte to the last, and not the one behind it. */
static void expect_range(uintptr_t base, size_t bytes, cuda_pointer_kind_t kind, int device) {
  expect((void *)base, kind, device);
  expect((void *)(base + bytes - 1), kind, device);
}

Test(pointer, plain_memory_needs_no_context) {
  int on_stack;
  char *on_heap = malloc(1);
  expect(NULL, CUDA_KIND_PLAIN, CUDA_NO_DEVICE);
  expect(&on_stack, CUDA_KIND_PLAIN, CUDA_NO_DEVICE);
  expect(on_heap, CUDA_KIND_PLAIN, CUDA_NO_DEVICE);
  free(on_heap);
  gpu_expect_clean();
}

Test(pointer, shareable_memory_is_device_memory) {
  const cuda_driver_t *driver = gpu_driver();
  cuda_memory_t memory;
  GPU_OK(cuda_memory_alloc(driver, 1, 100, &memory));
  expect_range((uintptr_t)memory.address, memory.bytes, CUDA_KIND_DEVICE, 1);
  uintptr_t address = (uintptr_t)memory.address;
  GPU_OK(cuda_memory_free(driver, &memory));
  expect((void *)address, CUDA_KIND_PLAIN, CUDA_NO_DEVICE);
  gpu_expect_clean();
}

Test(pointer, memory_of_every_kind) {
  const cuda_driver_t *driver = gpu_driver();
  cuda_ptr_t device, managed;
  void *pinned, *registered = aligned_alloc(4096, 8192);
  GPU_OK(cuda_context_enter(driver, 1));
  GPU_DONE(driver->cuMemAlloc(&device, 1000));
  GPU_DONE(driver->cuMemAllocManaged(&managed, 1000, CUDA_MANAGED_GLOBAL));
  GPU_DONE(driver->cuMemHostAlloc(&pinned, 1000, CUDA_HOST_PORTABLE));
  GPU_DONE(driver->cuMemHostRegister(registered, 4096, CUDA_REGISTER_PORTABLE));
  expect_range((uintptr_t)device, 1000, CUDA_KIND_DEVICE, 1);
  expect_range((uintptr_t)managed, 1000, CUDA_KIND_MANAGED, 1);
  expect_range((uintptr_t)pinned, 1000, CUDA_KIND_PINNED, 1);
  expect_range((uintptr_t)registered, 4096, CUDA_KIND_PINNED, 1);
  expect((char *)registered + 4096, CUDA_KIND_PLAIN, CUDA_NO_DEVICE);
  GPU_DONE(driver->cuMemFree(device));
  GPU_DONE(driver->cuMemFree(managed));
  GPU_DONE(driver->cuMemFreeHost(pinned));
  GPU_DONE(driver->cuMemHostUnregister(registered));
  expect(registered, CUDA_KIND_PLAIN, CUDA_NO_DEVICE);
  expect((void *)(uintptr_t)managed, CUDA_KIND_PLAIN, CUDA_NO_DEVICE);
  cuda_context_leave(driver, 1);
  free(registered);
  gpu_expect_clean();
}
