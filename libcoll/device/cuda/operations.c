/* Launches, and several operations in one call of the driver. */
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

/* ---- copies ----------------------------------------------------------------------------------*/

#define LEGACY_HANDLE 1 /* besides NULL */

void cuda_copies_begin(const cuda_driver_t *driver, int device, cuda_stream_t stream,
                       bool is_captured, cuda_copies_t *copies) {
  copies->driver = driver;
  copies->device = device;
  copies->stream = stream;
  copies->one_by_one = is_captured || (uintptr_t)stream <= LEGACY_HANDLE;
  copies->count = 0;
}

coll_status_t cuda_copies_add(cuda_copies_t *copies, void *dst, const void *src, size_t bytes) {
  if (bytes == 0) return COLL_OK;
  if (copies->count == CUDA_COPIES_MAX) COLL_TRY(cuda_copies_queue(copies));
  copies->dsts[copies->count] = (cuda_ptr_t)(uintptr_t)dst;
  copies->srcs[copies->count] = (cuda_ptr_t)(uintptr_t)src;
  copies->bytes[copies->count++] = bytes;
  return COLL_OK;
}

static coll_status_t queue_each(const cuda_copies_t *copies) {
  for (size_t i = 0; i < copies->count; i++) {
    cuda_result_t result = copies->driver->cuMemcpyAsync(copies->dsts[i], copies->srcs[i],
                                                         copies->bytes[i], copies->stream);
    COLL_TRY(cuda_driver_check(copies->driver, result, "cuMemcpyAsync", copies->device));
  }
  return COLL_OK;
}

static coll_status_t queue_all(cuda_copies_t *copies) {
  const cuda_location_t gpu = {CUDA_LOCATION_DEVICE, copies->device};
  cuda_copy_attributes_t attributes = {
      .order = CUDA_SOURCE_IN_STREAM, .src_hint = gpu, .dst_hint = gpu};
  size_t begin = 0, failed;
  cuda_result_t result =
      copies->driver->cuMemcpyBatchAsync(copies->dsts, copies->srcs, copies->bytes, copies->count,
                                         &attributes, &begin, 1, &failed, copies->stream);
  return cuda_driver_check(copies->driver, result, "cuMemcpyBatchAsync", copies->device);
}

coll_status_t cuda_copies_queue(cuda_copies_t *copies) {
  bool is_batch =
      copies->count > 1 && !copies->one_by_one && copies->driver->cuMemcpyBatchAsync != NULL;
  coll_status_t status = is_batch ? queue_all(copies) : queue_each(copies);
  copies->count = 0;
  return status;
}

/* ---- values ----------------------------------------------------------------------------------*/

void cuda_values_begin(const cuda_driver_t *driver, int device, cuda_stream_t stream,
                       cuda_values_t *values) {
  values->driver = driver;
  values->device = device;
  values->stream = stream;
  values->count = 0;
}

static coll_status_t add_value(cuda_values_t *values, cuda_value_kind_t kind, const uint64_t *word,
                               uint64_t value) {
  if (values->count == CUDA_VALUES_MAX) COLL_TRY(cuda_values_queue(values));
  values->operations[values->count++] = (cuda_value_operation_t){
      .of_memory = {.kind = kind, .address = (cuda_ptr_t)(uintptr_t)word, .value = value}};
  return COLL_OK;
}

coll_status_t cuda_values_store(cuda_values_t *values, const uint64_t *word, uint64_t value) {
  return add_value(values, CUDA_VALUE_WRITE64, word, value);
}

coll_status_t cuda_values_wait(cuda_values_t *values, const uint64_t *word, uint64_t value) {
  return add_value(values, CUDA_VALUE_WAIT64, word, value); /* of CUDA_WAIT_GEQ, which is 0 */
}

coll_status_t cuda_values_queue(cuda_values_t *values) {
  unsigned count = values->count;
  values->count = 0;
  if (count == 0) return COLL_OK;
  return cuda_driver_check(
      values->driver,
      values->driver->cuStreamBatchMemOp(values->stream, count, values->operations, 0),
      "cuStreamBatchMemOp", values->device);
}
