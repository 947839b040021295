/*
 * The life of shareable memory within one process.
 */
#include "device/cuda/memory.h"
#include "gpu/gpu.h"

TestSuite(memory, .timeout = 60);

Test(memory, is_zeroed_and_rounded_up) {
  const cuda_driver_t *driver = gpu_driver();
  const size_t sizes[] = {0, 1, STANDIN_GRANULARITY, STANDIN_GRANULARITY + 1};
  const size_t rounded[] = {1, 1, 1, 2};
  for (int i = 0; i < 4; i++) {
    cuda_memory_t memory;
    GPU_OK(cuda_memory_alloc(driver, 0, sizes[i], &memory));
    cr_assert(memory.device == 0);
    cr_assert(memory.bytes == rounded[i] * STANDIN_GRANULARITY, "%zu bytes", memory.bytes);
    cr_assert(memory.address % STANDIN_GRANULARITY == 0);
    const char *bytes = (const char *)(uintptr_t)memory.address;
    cr_assert(bytes[0] == 0 && memcmp(bytes, bytes + 1, memory.bytes - 1) == 0);
    GPU_OK(cuda_memory_free(driver, &memory));
    cr_assert(memory.address == 0);
    GPU_OK(cuda_memory_free(driver, &memory)); /* nothing to free */
  }
  gpu_expect_clean();
}

static unsigned long long access_of(const cuda_driver_t *driver, const cuda_memory_t *memory,
                                    int device) {
  cuda_location_t location = {CUDA_LOCATION_DEVICE, device};
  unsigned long long access = 0;
  GPU_DONE(driver->cuMemGetAccess(&access, &location, memory->address));
  return access;
}

Test(memory, is_open_to_every_device_of_the_process) {
  gpu_setting("COLL_STANDIN_GPUS", "4");
  const cuda_driver_t *driver = gpu_driver();
  cuda_memory_t memory;
  GPU_OK(cuda_memory_alloc(driver, 2, 1, &memory));
  for (int i = 0; i < 4; i++) cr_assert(access_of(driver, &memory, i) == CUDA_ACCESS_READ_WRITE);
  GPU_OK(cuda_memory_free(driver, &memory));
  gpu_expect_clean();
}

Test(memory, is_closed_to_devices_without_peer_access) {
  gpu_setting("COLL_STANDIN_PEERS", "0");
  const cuda_driver_t *driver = gpu_driver();
  cuda_memory_t memory;
  GPU_OK(cuda_memory_alloc(driver, 1, 1, &memory));
  cr_assert(access_of(driver, &memory, 1) == CUDA_ACCESS_READ_WRITE);
  cr_assert(access_of(driver, &memory, 0) == CUDA_ACCESS_NONE);
  GPU_OK(cuda_memory_free(driver, &memory));
  gpu_expect_clean();
}

Test(memory, outlives_releases_of_the_context_by_others) {
  const cuda_driver_t *driver = gpu_driver();
  cuda_memory_t memory;
  unsigned flags;
  int active;
  GPU_OK(cuda_memory_alloc(driver, 0, 1, &memory));
  GPU_OK(cuda_context_enter(driver, 0));
  cuda_context_leave(driver, 0);
  GPU_DONE(driver->cuDevicePrimaryCtxGetState(0, &flags, &active));
  cr_assert(active == 1);
  GPU_OK(cuda_memory_free(driver, &memory));
  GPU_DONE(driver->cuDevicePrimaryCtxGetState(0, &flags, &active));
  cr_assert(active == 0);
}

Test(memory, says_why_there_is_none) {
  gpu_setting("COLL_STANDIN_BYTES", "8388608");
  const cuda_driver_t *driver = gpu_driver();
  cuda_memory_t memory;
  GPU_FAILS(COLL_ERROR_INVALID, "GPU 7 does not exist", cuda_memory_alloc(driver, 7, 1, &memory));
  GPU_FAILS(COLL_ERROR_MEMORY, "cuMemCreate on GPU 1: CUDA_ERROR_OUT_OF_MEMORY",
            cuda_memory_alloc(driver, 1, 16 << 20, &memory));
  GPU_FAILS(COLL_ERROR_MEMORY, "GPU 1 has no", cuda_memory_alloc(driver, 1, SIZE_MAX, &memory));
  cr_assert(memory.address == 0);
  gpu_expect_clean();
}

Test(memory, needs_virtual_memory_management) {
  gpu_setting("COLL_STANDIN_NO_VMM", "1");
  cuda_memory_t memory;
  GPU_FAILS(COLL_ERROR_UNSUPPORTED, "GPU 0 has no virtual memory management",
            cuda_memory_alloc(gpu_driver(), 0, 1, &memory));
  gpu_expect_clean();
}

Test(memory, is_used_up_and_given_back) {
  gpu_setting("COLL_STANDIN_BYTES", "8388608");
  const cuda_driver_t *driver = gpu_driver();
  cuda_memory_t memory[4], more;
  for (int round = 0; round < 3; round++) {
    for (int i = 0; i < 4; i++) {
      GPU_OK(cuda_memory_alloc(driver, 0, STANDIN_GRANULARITY, &memory[i]));
    }
    GPU_FAILS(COLL_ERROR_MEMORY, "OUT_OF_MEMORY", cuda_memory_alloc(driver, 0, 1, &more));
    for (int i = 0; i < 4; i++) GPU_OK(cuda_memory_free(driver, &memory[i]));
  }
  gpu_expect_clean();
}
