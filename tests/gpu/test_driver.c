/*
 * Loading of NVIDIA's driver, and the texts of its errors.
 */
#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gpu/gpu.h"

#define UNSUPPORTED COLL_ERROR_UNSUPPORTED

TestSuite(driver, .timeout = 60);

/* Whether every function is there. */
static void expect_whole(const cuda_driver_t *driver) {
#define EXPECT(since, name, suffix, parameters) cr_assert(driver->name != NULL, "%s", #name);
  CUDA_FUNCTIONS(EXPECT)
#undef EXPECT
}

Test(driver, loads_with_get_proc_address) {
  gpu_setting("COLL_STANDIN_GPUS", "3");
  const cuda_driver_t *driver = gpu_driver(), *again = gpu_driver();
  cr_assert(driver == again);
  cr_assert(driver->version == 13000);
  cr_assert(driver->device_count == 3);
  expect_whole(driver);
}

Test(driver, loads_by_the_names_of_versions) {
  cuda_driver_t driver;
  GPU_OK(cuda_driver_open(STANDIN_OLD, &driver));
  expect_whole(&driver);
}

Test(driver, needs_the_library) {
  cuda_driver_t driver;
  GPU_FAILS(UNSUPPORTED, "NVIDIA's driver cannot be loaded",
            cuda_driver_open("libcuda-missing.so.1", &driver));
  GPU_FAILS(UNSUPPORTED, "libcuda-missing.so.1", cuda_driver_open("libcuda-missing.so.1", &driver));
  GPU_FAILS(UNSUPPORTED, "is not NVIDIA's driver", cuda_driver_open("libm.so.6", &driver));
}

Test(driver, needs_a_version) {
  const cuda_driver_t *driver;
  gpu_setting("COLL_STANDIN_VERSION", "11040");
  GPU_FAILS(UNSUPPORTED, "supports CUDA 11.4, and GPUs need CUDA 12.0", cuda_driver_load(&driver));
  gpu_setting("COLL_STANDIN_VERSION", "13000");
  GPU_FAILS(UNSUPPORTED, "CUDA 11.4", cuda_driver_load(&driver)); /* a failure is final */
}

Test(driver, needs_its_functions) {
  const cuda_driver_t *driver;
  gpu_setting("COLL_STANDIN_MISSING", "cuMemMap");
  GPU_FAILS(UNSUPPORTED, "has no function cuMemMap", cuda_driver_load(&driver));
}

Test(driver, newer_functions_may_be_missing) {
  gpu_setting("COLL_STANDIN_MISSING", "cuMulticastCreate");
  const cuda_driver_t *driver = gpu_driver();
  cr_assert(driver->cuMulticastCreate == NULL);
  cr_assert(driver->cuMulticastBindMem != NULL);
}

Test(driver, older_drivers_lack_newer_functions) {
  gpu_setting("COLL_STANDIN_VERSION", "12070");
  const cuda_driver_t *driver = gpu_driver();
  cr_assert(driver->version == 12070);
  cr_assert(driver->cuMemcpyBatchAsync == NULL);
  cr_assert(driver->cuMulticastCreate != NULL);
}

Test(driver, needs_a_gpu) {
  const cuda_driver_t *driver;
  gpu_setting("CUDA_VISIBLE_DEVICES", "");
  GPU_FAILS(UNSUPPORTED, "finds no GPU that this process may use", cuda_driver_load(&driver));
}

Test(driver, refuses_a_forked_process) {
  const cuda_driver_t *driver = gpu_driver();
  pid_t pid = fork();
  if (pid == 0) {
    coll_status_t status = cuda_context_enter(driver, 0);
    bool says = strstr(base_last_error(), "must exec first") != NULL;
    _exit(status == COLL_ERROR_SYSTEM && says ? 0 : 1);
  }
  int status = 0;
  cr_assert(waitpid(pid, &status, 0) == pid);
  cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

Test(driver, errors_are_sentences) {
  const cuda_driver_t *driver = gpu_driver();
  GPU_OK(cuda_driver_check(driver, CUDA_RESULT_OK, "cuX", 0));
  GPU_FAILS(COLL_ERROR_MEMORY, "cuMemCreate on GPU 3: CUDA_ERROR_OUT_OF_MEMORY (out of memory)",
            cuda_driver_check(driver, CUDA_RESULT_OUT_OF_MEMORY, "cuMemCreate", 3));
  GPU_FAILS(UNSUPPORTED, "cuInit: CUDA_ERROR_NOT_SUPPORTED",
            cuda_driver_check(driver, CUDA_RESULT_NOT_SUPPORTED, "cuInit", CUDA_NO_DEVICE));
  GPU_FAILS(COLL_ERROR_SYSTEM, "the GPU's context is lost",
            cuda_driver_check(driver, CUDA_RESULT_ILLEGAL_ADDRESS, "cuStreamQuery", 0));
  GPU_FAILS(COLL_ERROR_SYSTEM, "cuX on GPU 0: CUDA error 12345",
            cuda_driver_check(driver, (cuda_result_t)12345, "cuX", 0));
}

Test(driver, contexts_are_entered_and_left) {
  const cuda_driver_t *driver = gpu_driver();
  cuda_context_t before = NULL, within = NULL;
  cuda_device_t device = -1;
  GPU_FAILS(COLL_ERROR_INVALID, "GPU 2 does not exist: this process has 2, from 0 to 1",
            cuda_context_enter(driver, 2));
  GPU_FAILS(COLL_ERROR_INVALID, "GPU -1 does not exist", cuda_context_enter(driver, -1));
  GPU_OK(cuda_context_enter(driver, 0));
  GPU_OK(cuda_context_enter(driver, 1));
  GPU_DONE(driver->cuCtxGetDevice(&device));
  cr_assert(device == 1);
  cuda_context_leave(driver, 1);
  GPU_DONE(driver->cuCtxGetDevice(&device));
  cr_assert(device == 0);
  GPU_DONE(driver->cuCtxGetCurrent(&within));
  cuda_context_leave(driver, 0);
  GPU_DONE(driver->cuCtxGetCurrent(&before));
  cr_assert(before == NULL && within != NULL);
  gpu_expect_clean();
}

Test(driver, devices_are_told_apart_by_uuid) {
  gpu_setting("CUDA_VISIBLE_DEVICES", "1,0");
  const cuda_driver_t *driver = gpu_driver();
  cuda_uuid_t first, second;
  GPU_DONE(driver->cuDeviceGetUuid(&first, 0));
  GPU_DONE(driver->cuDeviceGetUuid(&second, 1));
  cr_assert(memcmp(&first, &second, sizeof first) != 0);
  cr_assert(memcmp(first.bytes, "virtual GPU 0001", 16) == 0);
}
