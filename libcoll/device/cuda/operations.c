/* Launches, and copies in one call of the driver. */
#include "device/cuda/operations.h"

/* ---- kernels ---------------------------------------------------------------------------------*/

coll_status_t cuda_launcher_init(const cuda_driver_t *driver, int device,
                                 cuda_launcher_t *launcher) {
  int domains;
  COLL_TRY(cuda_driver_check(
      driver, driver->cuDeviceGetAttribute(&domains, CUDA_ATTRIBUTE_SYNC_DOMAINS, device),
      "cuDeviceGetAttribute", device));
  *launcher = (cuda_launcher_t){.driver = driver, .device = device, .has_domains = domains > 1};
  return COLL_OK;
}

/* Not as a launch that may begin before the one before it in its stream has ended: kernels read
 * what that has stored from their first instruction on. */
coll_status_t cuda_launch(const cuda_launcher_t *launcher, cuda_function_t kernel, uint32_t blocks,
                          uint32_t threads, void *argument, cuda_stream_t stream) {
  void *arguments[] = {argument};
  cuda_launch_attribute_t domain = {.id = CUDA_LAUNCH_SYNC_DOMAIN,
                                    .value.domain = CUDA_DOMAIN_REMOTE};
  const cuda_launch_config_t config = {.grid_x = blocks,
                                       .grid_y = 1,
                                       .grid_z = 1,
                                       .block_x = threads,
                                       .block_y = 1,
                                       .block_z = 1,
                                       .stream = stream,
                                       .attributes = &domain,
                                       .attribute_count = launcher->has_domains ? 1 : 0};
  return cuda_driver_check(launcher->driver,
                           launcher->driver->cuLaunchKernelEx(&config, kernel, arguments, NULL),
                           "cuLaunchKernelEx", launcher->device);
}
