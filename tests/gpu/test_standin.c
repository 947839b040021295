/*
 * The stand-in's strictness: each mistake is refused, or reported as misuse.
 */
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gpu/gpu.h"

TestSuite(standin, .timeout = 60);

static const cuda_mem_prop_t prop = {.kind = CUDA_MEM_PINNED,
                                     .handle_types = CUDA_HANDLE_POSIX,
                                     .location = {CUDA_LOCATION_DEVICE, 0}};

Test(standin, needs_init_and_a_context) {
  cuda_driver_t table;
  gpu_setting("COLL_STANDIN_MISSING", "cuInit");
  cr_assert(cuda_driver_open(CUDA_DRIVER_LIBRARY, &table) != COLL_OK);
  int count;
  cuda_ptr_t memory;
  cuda_stream_t stream;
  GPU_RESULT(CUDA_RESULT_NOT_INITIALIZED, table.cuDeviceGetCount(&count));
  gpu_setting("COLL_STANDIN_MISSING", "");
  const cuda_driver_t *driver = gpu_driver();
  GPU_RESULT(CUDA_RESULT_INVALID_CONTEXT, driver->cuMemAlloc(&memory, 1));
  GPU_RESULT(CUDA_RESULT_INVALID_CONTEXT, driver->cuStreamCreateWithPriority(&stream, 0, 0));
  GPU_RESULT(CUDA_RESULT_INVALID_CONTEXT, driver->cuCtxSynchronize());
  gpu_expect_clean();
}

Test(standin, checks_sizes_and_alignment) {
  const cuda_driver_t *driver = gpu_driver();
  const size_t page = STANDIN_GRANULARITY;
  cuda_ptr_t address;
  cuda_mem_t handle;
  cuda_mem_prop_t wrong = prop;
  GPU_RESULT(CUDA_RESULT_INVALID_VALUE, driver->cuMemCreate(&handle, 4096, &prop, 0));
  GPU_RESULT(CUDA_RESULT_INVALID_VALUE, driver->cuMemAddressReserve(&address, 4096, 0, 0, 0));
  wrong.location.id = 2;
  GPU_RESULT(CUDA_RESULT_INVALID_DEVICE, driver->cuMemCreate(&handle, page, &wrong, 0));
  wrong = prop;
  wrong.handle_types = CUDA_HANDLE_FABRIC;
  GPU_RESULT(CUDA_RESULT_NOT_SUPPORTED, driver->cuMemCreate(&handle, page, &wrong, 0));
  GPU_DONE(driver->cuMemCreate(&handle, page, &prop, 0));
  GPU_DONE(driver->cuMemAddressReserve(&address, 2 * page, 0, 0, 0));
  GPU_RESULT(CUDA_RESULT_INVALID_VALUE, driver->cuMemMap(address + 4096, page, 0, handle, 0));
  GPU_RESULT(CUDA_RESULT_INVALID_VALUE, driver->cuMemMap(address, 2 * page, 0, handle, 0));
  GPU_RESULT(CUDA_RESULT_INVALID_VALUE, driver->cuMemMap(address + 2 * page, page, 0, handle, 0));
  GPU_DONE(driver->cuMemMap(address, page, 0, handle, 0));
  GPU_RESULT(CUDA_RESULT_INVALID_VALUE, driver->cuMemMap(address, page, 0, handle, 0));
  GPU_RESULT(CUDA_RESULT_INVALID_VALUE, driver->cuMemAddressFree(address, 2 * page));
  GPU_RESULT(CUDA_RESULT_INVALID_VALUE, driver->cuMemUnmap(address, 2 * page));
  GPU_DONE(driver->cuMemUnmap(address, page));
  GPU_DONE(driver->cuMemAddressFree(address, 2 * page));
  GPU_DONE(driver->cuMemRelease(handle));
  gpu_expect_clean();
}

/* A byte of mapped memory without access. */
static volatile char *map_without_access(void) {
  const cuda_driver_t *driver = gpu_driver();
  cuda_ptr_t address;
  cuda_mem_t handle;
  GPU_DONE(driver->cuMemCreate(&handle, STANDIN_GRANULARITY, &prop, 0));
  GPU_DONE(driver->cuMemAddressReserve(&address, STANDIN_GRANULARITY, 0, 0, 0));
  GPU_DONE(driver->cuMemMap(address, STANDIN_GRANULARITY, 0, handle, 0));
  return (volatile char *)(uintptr_t)address;
}

static void restore_signal(void) {
  signal(SIGSEGV, SIG_DFL); /* a sanitizer would report it */
}

Test(standin, memory_without_access_faults, .signal = SIGSEGV) {
  restore_signal();
  *map_without_access() = 1;
}

Test(standin, memory_for_reading_faults_on_writes, .signal = SIGSEGV) {
  volatile char *memory = map_without_access();
  cuda_access_desc_t desc = {{CUDA_LOCATION_DEVICE, 0}, CUDA_ACCESS_READ};
  GPU_DONE(
      gpu_driver()->cuMemSetAccess((cuda_ptr_t)(uintptr_t)memory, STANDIN_GRANULARITY, &desc, 1));
  cr_assert(*memory == 0);
  restore_signal();
  *memory = 1;
}

Test(standin, leaks_are_counted) {
  char text[256];
  (void)map_without_access();
  cr_assert(standin_leaks(text, sizeof text) == 3);
  cr_assert(strcmp(text, "1 reservation, 1 mapping, 1 memory handle") == 0, "%s", text);
}

static int exit_code_of_leaks(bool strict) {
  int status = 0;
  pid_t pid = fork();
  if (pid == 0) {
    gpu_setting("COLL_STANDIN_STRICT", strict ? "1" : "0");
    (void)map_without_access();
    exit(0);
  }
  cr_assert(waitpid(pid, &status, 0) == pid && WIFEXITED(status));
  return WEXITSTATUS(status);
}

Test(standin, leaks_may_change_the_exit_code) {
  cr_assert(exit_code_of_leaks(false) == 0);
  cr_assert(exit_code_of_leaks(true) == STANDIN_STRICT_EXIT);
}

Test(standin, what_is_freed_twice_is_misuse) {
  const cuda_driver_t *driver = gpu_driver();
  cuda_ptr_t memory;
  cuda_mem_t handle;
  GPU_OK(cuda_context_enter(driver, 0));
  GPU_DONE(driver->cuMemAlloc(&memory, 1));
  GPU_DONE(driver->cuMemFree(memory));
  GPU_RESULT(CUDA_RESULT_INVALID_VALUE, driver->cuMemFree(memory));
  GPU_DONE(driver->cuMemCreate(&handle, STANDIN_GRANULARITY, &prop, 0));
  GPU_DONE(driver->cuMemRelease(handle));
  GPU_RESULT(CUDA_RESULT_INVALID_VALUE, driver->cuMemRelease(handle));
  cr_assert(standin_misuses() == 2);
  cuda_context_leave(driver, 0);
}

Test(standin, destroyed_handles_are_misuse) {
  const cuda_driver_t *driver = gpu_driver();
  cuda_stream_t stream;
  cuda_event_t event;
  GPU_OK(cuda_context_enter(driver, 0));
  GPU_DONE(driver->cuStreamCreateWithPriority(&stream, 0, 0));
  GPU_DONE(driver->cuEventCreate(&event, 0));
  GPU_DONE(driver->cuStreamDestroy(stream));
  GPU_DONE(driver->cuEventDestroy(event));
  GPU_RESULT(CUDA_RESULT_INVALID_HANDLE, driver->cuStreamQuery(stream));
  GPU_RESULT(CUDA_RESULT_INVALID_HANDLE, driver->cuEventQuery(event));
  GPU_RESULT(CUDA_RESULT_INVALID_HANDLE, driver->cuStreamQuery((cuda_stream_t)&stream));
  cr_assert(standin_misuses() == 3);
  cuda_context_leave(driver, 0);
}

Test(standin, peer_access_must_be_enabled) {
  const cuda_driver_t *driver = gpu_driver();
  cuda_context_t contexts[2];
  cuda_ptr_t memory[2];
  for (int i = 0; i < 2; i++) {
    GPU_OK(cuda_context_enter(driver, i));
    GPU_DONE(driver->cuCtxGetCurrent(&contexts[i]));
    GPU_DONE(driver->cuMemAlloc(&memory[i], 64));
  }
  GPU_RESULT(CUDA_RESULT_INVALID_VALUE, driver->cuMemcpyAsync(memory[1], memory[0], 64, NULL));
  GPU_DONE(driver->cuCtxEnablePeerAccess(contexts[0], 0));
  GPU_RESULT(CUDA_RESULT_PEER_ACCESS_ALREADY_ENABLED,
             driver->cuCtxEnablePeerAccess(contexts[0], 0));
  GPU_DONE(driver->cuMemcpyAsync(memory[1], memory[0], 64, NULL));
  GPU_RESULT(CUDA_RESULT_INVALID_VALUE, driver->cuMemcpyAsync(memory[1], memory[0], 65, NULL));
  GPU_DONE(driver->cuStreamSynchronize(NULL));
  for (int i = 1; i >= 0; i--) {
    GPU_DONE(driver->cuMemFree(memory[i]));
    cuda_context_leave(driver, i);
  }
  gpu_expect_clean();
}

/* The copy waits in its stream while its source is unmapped: the context is lost. */
Test(standin, memory_unmapped_under_work_is_misuse) {
  const cuda_driver_t *driver = gpu_driver();
  cuda_access_desc_t desc = {{CUDA_LOCATION_DEVICE, 0}, CUDA_ACCESS_READ_WRITE};
  cuda_ptr_t source = (cuda_ptr_t)(uintptr_t)map_without_access(), flag;
  cuda_stream_t stream;
  GPU_DONE(driver->cuMemSetAccess(source, STANDIN_GRANULARITY, &desc, 1));
  GPU_OK(cuda_context_enter(driver, 0));
  GPU_DONE(driver->cuMemAlloc(&flag, 64));
  GPU_DONE(driver->cuStreamCreateWithPriority(&stream, CUDA_STREAM_NON_BLOCKING, 0));
  GPU_DONE(driver->cuStreamWaitValue32(stream, flag, 1, CUDA_WAIT_EQ));
  GPU_DONE(driver->cuMemcpyAsync(flag + 32, source, 4, stream));
  GPU_DONE(driver->cuMemUnmap(source, STANDIN_GRANULARITY));
  cr_assert(standin_misuses() == 1);
  __atomic_store_n((uint32_t *)(uintptr_t)flag, 1, __ATOMIC_RELEASE);
  GPU_RESULT(CUDA_RESULT_ILLEGAL_ADDRESS, driver->cuStreamSynchronize(stream));
  GPU_RESULT(CUDA_RESULT_ILLEGAL_ADDRESS, driver->cuCtxSynchronize());
  cr_assert(standin_misuses() == 2);
}

Test(standin, a_destroyed_context_takes_its_objects) {
  const cuda_driver_t *driver = gpu_driver();
  cuda_ptr_t memory;
  char text[256];
  GPU_OK(cuda_context_enter(driver, 0));
  GPU_DONE(driver->cuMemAlloc(&memory, 64));
  cuda_context_leave(driver, 0);
  cr_assert(standin_misuses() == 1);
  cr_assert(standin_leaks(text, sizeof text) == 0);
}
