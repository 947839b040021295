/*
 * The stand-in's streams, events and kernels: order as the driver's, and no more than that.
 */
#include <sched.h>
#include <stdatomic.h>

#include "gpu/gpu.h"

TestSuite(streams, .timeout = 60);

static const cuda_driver_t *driver;
static cuda_ptr_t memory; /* 4096 bytes of GPU 0 */

static void begin(void) {
  driver = gpu_driver();
  GPU_OK(cuda_context_enter(driver, 0));
  GPU_DONE(driver->cuMemAlloc(&memory, 4096));
}

static void end(void) {
  GPU_DONE(driver->cuMemFree(memory));
  cuda_context_leave(driver, 0);
  gpu_expect_clean();
}

static cuda_stream_t stream_create(unsigned flags) {
  cuda_stream_t stream;
  GPU_DONE(driver->cuStreamCreateWithPriority(&stream, flags, 0));
  return stream;
}

static uint32_t word(int index) {
  return __atomic_load_n((const uint32_t *)(uintptr_t)memory + index, __ATOMIC_ACQUIRE);
}

Test(streams, wait_for_values_that_others_write) {
  begin();
  cuda_stream_t a = stream_create(CUDA_STREAM_NON_BLOCKING);
  cuda_stream_t b = stream_create(CUDA_STREAM_NON_BLOCKING);
  GPU_DONE(driver->cuStreamWaitValue32(a, memory, 5, CUDA_WAIT_GEQ));
  GPU_DONE(driver->cuStreamWriteValue32(a, memory + 8, 9, 0));
  GPU_RESULT(CUDA_RESULT_NOT_READY, driver->cuStreamQuery(a));
  cr_assert(word(2) == 0);
  GPU_DONE(driver->cuStreamWriteValue64(b, memory, 6, 0));
  GPU_DONE(driver->cuStreamSynchronize(a));
  cr_assert(word(2) == 9);
  GPU_DONE(driver->cuStreamQuery(a));
  GPU_DONE(driver->cuStreamDestroy(a));
  GPU_DONE(driver->cuStreamDestroy(b));
  end();
}

Test(streams, events_order_streams) {
  begin();
  cuda_stream_t a = stream_create(CUDA_STREAM_NON_BLOCKING);
  cuda_stream_t b = stream_create(CUDA_STREAM_NON_BLOCKING);
  cuda_event_t first, second;
  float ms = -1;
  GPU_DONE(driver->cuEventCreate(&first, 0));
  GPU_DONE(driver->cuEventCreate(&second, 0));
  GPU_DONE(driver->cuEventQuery(first)); /* never recorded: complete */
  GPU_DONE(driver->cuStreamWaitValue32(a, memory, 1, CUDA_WAIT_EQ));
  GPU_DONE(driver->cuMemsetD32Async(memory + 4, 3, 1, a));
  GPU_DONE(driver->cuEventRecord(first, a));
  GPU_DONE(driver->cuStreamWaitEvent(b, first, 0));
  GPU_DONE(driver->cuMemcpyAsync(memory + 8, memory + 4, 4, b));
  GPU_DONE(driver->cuEventRecord(second, b));
  GPU_RESULT(CUDA_RESULT_NOT_READY, driver->cuEventQuery(second));
  __atomic_store_n((uint32_t *)(uintptr_t)memory, 1, __ATOMIC_RELEASE);
  GPU_DONE(driver->cuEventSynchronize(second));
  cr_assert(word(2) == 3);
  GPU_DONE(driver->cuEventElapsedTime(&ms, first, second));
  cr_assert(ms >= 0);
  GPU_DONE(driver->cuEventDestroy(first));
  GPU_DONE(driver->cuEventDestroy(second));
  GPU_DONE(driver->cuStreamDestroy(a));
  GPU_DONE(driver->cuStreamDestroy(b));
  end();
}

/* The legacy default stream waits for blocking streams, and not for the others. */
Test(streams, the_default_stream_waits_for_blocking_ones) {
  begin();
  cuda_stream_t blocking = stream_create(0);
  cuda_stream_t other = stream_create(CUDA_STREAM_NON_BLOCKING);
  GPU_DONE(driver->cuStreamWaitValue32(other, memory, 1, CUDA_WAIT_EQ));
  GPU_DONE(driver->cuMemsetD32Async(memory + 4, 7, 1, NULL));
  GPU_DONE(driver->cuStreamSynchronize(NULL));
  cr_assert(word(1) == 7);
  GPU_DONE(driver->cuStreamWaitValue32(blocking, memory, 1, CUDA_WAIT_EQ));
  GPU_DONE(driver->cuMemsetD32Async(memory + 4, 8, 1, NULL));
  GPU_RESULT(CUDA_RESULT_NOT_READY, driver->cuStreamQuery(NULL));
  cr_assert(word(1) == 7);
  __atomic_store_n((uint32_t *)(uintptr_t)memory, 1, __ATOMIC_RELEASE);
  GPU_DONE(driver->cuCtxSynchronize());
  cr_assert(word(1) == 8);
  GPU_DONE(driver->cuStreamDestroy(blocking));
  GPU_DONE(driver->cuStreamDestroy(other));
  end();
}

Test(streams, carry_out_work_of_a_destroyed_stream) {
  begin();
  cuda_stream_t stream = stream_create(CUDA_STREAM_NON_BLOCKING);
  GPU_DONE(driver->cuStreamWaitValue32(stream, memory, 1, CUDA_WAIT_EQ));
  GPU_DONE(driver->cuStreamWriteValue32(stream, memory + 4, 1, 0));
  GPU_DONE(driver->cuStreamDestroy(stream));
  __atomic_store_n((uint32_t *)(uintptr_t)memory, 1, __ATOMIC_RELEASE);
  GPU_DONE(driver->cuCtxSynchronize());
  cr_assert(word(1) == 1);
  end();
}

/* ---- several at once -------------------------------------------------------------------------*/

static cuda_value_operation_t value_of(cuda_value_kind_t kind, cuda_ptr_t address, uint64_t value,
                                       unsigned flags) {
  return (cuda_value_operation_t){.of_memory = {kind, address, value, flags, 0}};
}

Test(streams, store_and_wait_for_several_values_in_order) {
  begin();
  cuda_stream_t a = stream_create(CUDA_STREAM_NON_BLOCKING);
  cuda_value_operation_t values[] = {
      value_of(CUDA_VALUE_WRITE64, memory + 8, 1, 0),
      value_of(CUDA_VALUE_WAIT64, memory, 5, CUDA_WAIT_GEQ),
      value_of(CUDA_VALUE_WRITE64, memory + 16, 2, 0),
      value_of(CUDA_VALUE_WAIT32, memory + 16, 2, CUDA_WAIT_EQ),
      value_of(CUDA_VALUE_WRITE32, memory + 24, 3, 0),
  };
  GPU_DONE(driver->cuStreamBatchMemOp(a, 5, values, 0));
  while (word(2) != 1) sched_yield();
  cr_assert(word(4) == 0);
  __atomic_store_n((uint64_t *)(uintptr_t)memory, 6, __ATOMIC_RELEASE);
  GPU_DONE(driver->cuStreamSynchronize(a));
  cr_assert(word(4) == 2 && word(6) == 3);
  cr_assert(standin_batches(false) == 1 && standin_batches(true) == 0);
  GPU_DONE(driver->cuStreamDestroy(a));
  end();
}

/* Nothing of a call that is refused is queued. */
Test(streams, refuse_values_that_the_driver_refuses) {
  begin();
  static cuda_value_operation_t many[256];
  cuda_value_operation_t values[2] = {value_of(CUDA_VALUE_WRITE64, memory, 1, 0)};
  for (int i = 0; i < 256; i++) many[i] = values[0];
  GPU_RESULT(CUDA_RESULT_INVALID_VALUE, driver->cuStreamBatchMemOp(NULL, 0, values, 0));
  GPU_RESULT(CUDA_RESULT_INVALID_VALUE, driver->cuStreamBatchMemOp(NULL, 256, many, 0));
  GPU_RESULT(CUDA_RESULT_INVALID_VALUE, driver->cuStreamBatchMemOp(NULL, 1, NULL, 0));
  GPU_RESULT(CUDA_RESULT_INVALID_VALUE, driver->cuStreamBatchMemOp(NULL, 1, values, 1));
  values[1] = value_of(CUDA_VALUE_WRITE64, memory, 1, 1);
  GPU_RESULT(CUDA_RESULT_INVALID_VALUE, driver->cuStreamBatchMemOp(NULL, 2, values, 0));
  values[1] = value_of(CUDA_VALUE_WAIT64, memory, 1, CUDA_WAIT_NOR + 1);
  GPU_RESULT(CUDA_RESULT_INVALID_VALUE, driver->cuStreamBatchMemOp(NULL, 2, values, 0));
  values[1] = value_of(CUDA_VALUE_WRITE64, memory + 4, 1, 0);
  GPU_RESULT(CUDA_RESULT_INVALID_VALUE, driver->cuStreamBatchMemOp(NULL, 2, values, 0));
  values[1] = value_of((cuda_value_kind_t)3, memory, 1, 0);
  GPU_RESULT(CUDA_RESULT_NOT_SUPPORTED, driver->cuStreamBatchMemOp(NULL, 2, values, 0));
  GPU_DONE(driver->cuStreamSynchronize(NULL));
  cr_assert(word(0) == 0);
  end();
}

/* Copies of 16 bytes: from i * 16 to 1024 + i * 16. */
typedef struct copies {
  cuda_ptr_t dsts[4], srcs[4];
  size_t bytes[4], begins[2], failed;
  cuda_copy_attributes_t attributes[2];
} copies_t;

static copies_t four_copies(void) {
  copies_t copies = {.begins = {0, 2}};
  for (size_t i = 0; i < 4; i++) {
    copies.srcs[i] = memory + 16 * i;
    copies.dsts[i] = memory + 1024 + 16 * i;
    copies.bytes[i] = 16;
  }
  for (int i = 0; i < 2; i++) copies.attributes[i].order = CUDA_SOURCE_IN_STREAM;
  return copies;
}

static cuda_result_t copy_all(copies_t *c, size_t count, size_t attributes, cuda_stream_t stream) {
  return driver->cuMemcpyBatchAsync(c->dsts, c->srcs, c->bytes, count, c->attributes, c->begins,
                                    attributes, &c->failed, stream);
}

Test(streams, carry_out_several_copies) {
  begin();
  cuda_stream_t a = stream_create(CUDA_STREAM_NON_BLOCKING);
  copies_t copies = four_copies();
  copies.attributes[1].src_hint = (cuda_location_t){CUDA_LOCATION_DEVICE, 1};
  GPU_DONE(driver->cuMemsetD32Async(memory, 7, 16, a));
  GPU_DONE(copy_all(&copies, 4, 2, a));
  GPU_DONE(driver->cuStreamSynchronize(a));
  for (int i = 0; i < 16; i++) cr_assert(word(256 + i) == 7);
  cr_assert(standin_batches(true) == 1 && standin_batches(false) == 0);
  GPU_DONE(driver->cuStreamDestroy(a));
  end();
}

#define REFUSED(copies, count, attributes) \
  GPU_RESULT(CUDA_RESULT_INVALID_VALUE, copy_all(&(copies), count, attributes, a))

Test(streams, refuse_copies_that_the_driver_refuses) {
  begin();
  cuda_stream_t a = stream_create(CUDA_STREAM_NON_BLOCKING);
  copies_t good = four_copies(), bad = good;
  GPU_RESULT(CUDA_RESULT_INVALID_VALUE, copy_all(&good, 4, 1, NULL));
  GPU_RESULT(CUDA_RESULT_INVALID_VALUE, copy_all(&good, 4, 1, (cuda_stream_t)1));
  GPU_DONE(copy_all(&good, 1, 1, (cuda_stream_t)2));
  REFUSED(good, 0, 1);
  REFUSED(good, 4, 0);
  REFUSED(good, 2, 2); /* the second attributes are of no copy */
  bad.begins[0] = 1;
  REFUSED(bad, 4, 1);
  bad = good;
  bad.begins[1] = 0;
  REFUSED(bad, 4, 2);
  bad = good;
  bad.attributes[0].order = 0;
  REFUSED(bad, 4, 1);
  bad = good;
  bad.attributes[0].flags = 2;
  REFUSED(bad, 4, 1);
  bad = good;
  bad.attributes[0].dst_hint = (cuda_location_t){CUDA_LOCATION_DEVICE, 2};
  REFUSED(bad, 4, 1);
  bad = good;
  bad.bytes[3] = 0;
  REFUSED(bad, 4, 1);
  bad = good;
  bad.dsts[3] = memory + 4088;
  REFUSED(bad, 4, 1);
  GPU_DONE(driver->cuCtxSynchronize());
  GPU_DONE(driver->cuStreamDestroy(a));
  end();
}

Test(streams, report_copies_that_depend_on_each_other) {
  begin();
  copies_t copies = four_copies();
  copies.srcs[1] = copies.dsts[0];
  GPU_DONE(copy_all(&copies, 2, 1, (cuda_stream_t)2));
  GPU_DONE(driver->cuCtxSynchronize());
  cr_assert(standin_misuses() == 1);
}

/* ---- kernels ---------------------------------------------------------------------------------*/

static void add(const standin_launch_t *launch) {
  uint32_t *data = *(uint32_t **)launch->arguments[0];
  uint32_t value = *(uint32_t *)launch->arguments[1];
  for (unsigned i = 0; i < launch->grid[0] * launch->block[0]; i++) data[i] += value;
}

/* The kernel above, in a module that the caller unloads. */
static cuda_function_t load_add(cuda_module_t *module) {
  cuda_function_t function;
  cr_assert(standin_kernel_register("add", add, 2, (size_t[]){8, 4}));
  GPU_DONE(driver->cuModuleLoadData(module, "image"));
  GPU_RESULT(CUDA_RESULT_NOT_FOUND, driver->cuModuleGetFunction(&function, *module, "sub"));
  GPU_DONE(driver->cuModuleGetFunction(&function, *module, "add"));
  return function;
}

static cuda_launch_config_t launch_of(unsigned grid, unsigned block) {
  return (cuda_launch_config_t){grid, 1, 1, block, 1, 1, 0, NULL, NULL, 0};
}

Test(streams, launch_registered_kernels) {
  begin();
  cuda_module_t module;
  cuda_function_t function = load_add(&module);
  int blocks = 0;
  uint32_t value = 40;
  void *arguments[] = {&memory, &value};
  cuda_launch_config_t config = launch_of(4, 256), larger = launch_of(1, 2048);
  GPU_DONE(driver->cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, function, 512, 0));
  cr_assert(blocks == 4);
  GPU_RESULT(CUDA_RESULT_INVALID_VALUE,
             driver->cuLaunchKernelEx(&larger, function, arguments, NULL));
  GPU_DONE(driver->cuMemsetD32Async(memory, 2, 1024, NULL));
  GPU_DONE(driver->cuLaunchKernelEx(&config, function, arguments, NULL));
  value = 0; /* arguments were copied */
  GPU_DONE(driver->cuStreamSynchronize(NULL));
  cr_assert(word(0) == 42 && word(1023) == 42);
  GPU_DONE(driver->cuModuleUnload(module));
  end();
}

Test(streams, launch_kernels_with_attributes) {
  begin();
  cuda_module_t module;
  cuda_function_t function = load_add(&module);
  uint32_t value = 1;
  void *arguments[] = {&memory, &value};
  cuda_launch_attribute_t attributes[2] = {
      {.id = CUDA_LAUNCH_IGNORE},
      {.id = CUDA_LAUNCH_SYNC_DOMAIN, .value.domain = CUDA_DOMAIN_REMOTE}};
  cuda_launch_config_t config = launch_of(1, 1);
  config.attribute_count = 2;
  GPU_RESULT(CUDA_RESULT_INVALID_VALUE,
             driver->cuLaunchKernelEx(&config, function, arguments, NULL));
  config.attributes = attributes;
  GPU_DONE(driver->cuLaunchKernelEx(&config, function, arguments, NULL));
  cr_assert(standin_launches(false) == 1 && standin_launches(true) == 0);
  attributes[1].value.domain = CUDA_DOMAIN_DEFAULT;
  GPU_DONE(driver->cuLaunchKernelEx(&config, function, arguments, NULL));
  cr_assert(standin_launches(false) == 1 && standin_launches(true) == 1);
  attributes[1].value.domain = (cuda_domain_t)2;
  GPU_RESULT(CUDA_RESULT_INVALID_VALUE,
             driver->cuLaunchKernelEx(&config, function, arguments, NULL));
  attributes[1].id = (cuda_launch_attribute_id_t)6; /* of dependent launches */
  GPU_RESULT(CUDA_RESULT_NOT_SUPPORTED,
             driver->cuLaunchKernelEx(&config, function, arguments, NULL));
  GPU_DONE(driver->cuStreamSynchronize(NULL));
  GPU_DONE(driver->cuModuleUnload(module));
  end();
}

static void count(void *context) {
  atomic_fetch_add((atomic_int *)context, 1);
}

Test(streams, run_host_functions_in_order) {
  atomic_int counter = 0;
  begin();
  for (int i = 0; i < 100; i++) GPU_DONE(driver->cuLaunchHostFunc(NULL, count, &counter));
  GPU_DONE(driver->cuStreamSynchronize(NULL));
  cr_assert(counter == 100);
  end();
}

/* Two streams without order between them: ThreadSanitizer reports the race of the data, though the
 * second copy is queued when the first has long been made. With an event it has none to report. */
static void copy_in_two_streams(bool ordered) {
  begin();
  cuda_stream_t a = stream_create(CUDA_STREAM_NON_BLOCKING);
  cuda_stream_t b = stream_create(CUDA_STREAM_NON_BLOCKING);
  cuda_event_t event;
  GPU_DONE(driver->cuEventCreate(&event, CUDA_EVENT_NO_TIMING));
  GPU_DONE(driver->cuMemcpyAsync(memory + 64, memory, 64, a));
  GPU_DONE(driver->cuStreamWriteValue32(a, memory + 256, 1, 0));
  GPU_DONE(driver->cuEventRecord(event, a));
  while (__atomic_load_n((const uint32_t *)(uintptr_t)memory + 64, __ATOMIC_RELAXED) == 0) {
    sched_yield();
  }
  if (ordered) GPU_DONE(driver->cuStreamWaitEvent(b, event, 0));
  GPU_DONE(driver->cuMemcpyAsync(memory + 128, memory + 64, 64, b));
  GPU_DONE(driver->cuStreamSynchronize(b));
  GPU_DONE(driver->cuStreamSynchronize(a));
  GPU_DONE(driver->cuEventDestroy(event));
  GPU_DONE(driver->cuStreamDestroy(a));
  GPU_DONE(driver->cuStreamDestroy(b));
  end();
}

Test(streams, copies_in_order_are_no_race) {
  copy_in_two_streams(true);
}

#ifdef __SANITIZE_THREAD__
Test(streams, copies_without_order_are_a_race, .exit_code = 66) {
  copy_in_two_streams(false);
}
#endif

Test(streams, keep_their_order_when_delayed) {
  gpu_setting("COLL_STANDIN_DELAY_US", "300");
  for (int seed = 1; seed <= 5; seed++) copy_in_two_streams(true);
}
