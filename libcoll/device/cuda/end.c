/* Creation and the end of an end, and the words that the host and the kernel share. */
#include "device/cuda/end.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "device/cuda/end_state.h"
#include "device/cuda/image.h"

coll_status_t cuda_end_enter(const cuda_end_t *end, cuda_capture_mode_t *mode) {
  cuda_context_t context;
  *mode = CUDA_CAPTURE_RELAXED;
  COLL_TRY(CUDA_END_CALL(end, cuCtxPushCurrent, end->context));
  coll_status_t status = CUDA_END_CALL(end, cuThreadExchangeStreamCaptureMode, mode);
  if (status != COLL_OK) (void)end->driver->cuCtxPopCurrent(&context);
  return status;
}

void cuda_end_leave(const cuda_end_t *end, cuda_capture_mode_t mode) {
  cuda_context_t context;
  (void)end->driver->cuThreadExchangeStreamCaptureMode(&mode);
  (void)end->driver->cuCtxPopCurrent(&context);
}

/* ---- creation --------------------------------------------------------------------------------*/

static coll_status_t load_kernels(cuda_end_t *end) {
  COLL_TRY(CUDA_END_CALL(end, cuDeviceGetAttribute, &end->multiprocessors,
                         CUDA_ATTRIBUTE_MULTIPROCESSOR_COUNT, end->device));
  COLL_TRY(CUDA_END_CALL(end, cuDeviceGetUuid, &end->gpu, end->device));
  if (end->driver->cuDeviceGetAttribute(&end->mps, CUDA_ATTRIBUTE_MPS, end->device) !=
      CUDA_RESULT_OK) {
    end->mps = 0; /* the driver is too old to tell */
  }
  return cuda_code_take(end->driver, end->device, end->context, &end->code);
}

/* Zeroed memory that the host and the kernel share. */
static coll_status_t make_shared(const cuda_end_t *end, size_t bytes, void **host,
                                 cuda_ptr_t *address) {
  void *memory = NULL;
  COLL_TRY(CUDA_END_CALL(end, cuMemHostAlloc, &memory, bytes, CUDA_HOST_MAPPED));
  memset(memory, 0, bytes);
  *host = memory;
  return CUDA_END_CALL(end, cuMemHostGetDevicePointer, address, memory, 0);
}

static coll_status_t make_words(cuda_end_t *end) {
  COLL_TRY(make_shared(end, sizeof *end->words, (void **)&end->words, &end->words_address));
  return make_shared(end, gpu_record_bytes(&end->room), (void **)&end->record,
                     &end->record_address);
}

/* Ranks of a process tell each other where their arenas are through memory that each has mapped at
 * an address of its own, so ThreadSanitizer sees no order there. It sees that of the lock. */
static pthread_mutex_t arena_lock = PTHREAD_MUTEX_INITIALIZER;

static int add_users(cuda_end_arena_t *arena, int change) {
  pthread_mutex_lock(&arena_lock);
  int users = arena->users += change;
  pthread_mutex_unlock(&arena_lock);
  return users;
}

void cuda_end_arena_take(cuda_end_arena_t *arena) {
  (void)add_users(arena, 1);
}

/* Of the size that either engine needs, as the ranks choose one when they know each other. */
static coll_status_t make_arena(cuda_end_t *end) {
  cuda_end_arena_t *arena;
  COLL_TRY(base_alloc(1, sizeof *arena, "a GPU's arena", (void **)&arena));
  gpu_room_t copy_room = cuda_end_copy_room(end->size);
  size_t bytes = gpu_arena_bytes(&end->room), copy_bytes = gpu_arena_bytes(&copy_room);
  coll_status_t status = cuda_memory_alloc(end->driver, end->device,
                                           bytes > copy_bytes ? bytes : copy_bytes, &arena->memory);
  if (status != COLL_OK) {
    free(arena);
    return status;
  }
  cuda_end_arena_take(arena);
  end->arena = arena;
  return COLL_OK;
}

static coll_status_t build(cuda_end_t *end) {
  COLL_TRY(load_kernels(end));
  COLL_TRY(cuda_launcher_init(end->driver, end->device, &end->launcher));
  COLL_TRY(
      CUDA_END_CALL(end, cuStreamCreateWithPriority, &end->uploads, CUDA_STREAM_NON_BLOCKING, 0));
  COLL_TRY(make_words(end));
  COLL_TRY(make_arena(end));
  COLL_TRY(cuda_order_init(end->driver, end->device, &end->order));
  COLL_TRY(cuda_end_stage_init(end));
  COLL_TRY(base_alloc((size_t)end->size, sizeof(cuda_end_arena_t *), "a GPU's peers",
                      (void **)&end->local));
  return base_alloc((size_t)end->size, sizeof *end->imported, "a GPU's peers",
                    (void **)&end->imported);
}

/* Frees what there is. Returns the first failure. */
static coll_status_t release(cuda_end_t *end) {
  coll_status_t status = end->copy == NULL ? COLL_OK : cuda_copy_destroy(end->copy), freed;
  end->last = NULL;
  cuda_order_free(&end->order);
  cuda_end_stage_free(end);
  for (int rank = 0; end->imported != NULL && rank < end->size; rank++) {
    freed = cuda_memory_free(end->driver, &end->imported[rank]);
    if (status == COLL_OK) status = freed;
  }
  for (int rank = 0; end->local != NULL && rank < end->size; rank++) {
    freed = cuda_end_arena_release(end->driver, end->local[rank]);
    if (status == COLL_OK) status = freed;
  }
  freed = cuda_end_arena_release(end->driver, end->arena);
  if (status == COLL_OK) status = freed;
  cuda_end_scaled_free(end);
  cuda_end_programs_free(end);
  cuda_end_pool_free(end);
  if (end->words != NULL) (void)end->driver->cuMemFreeHost(end->words);
  if (end->record != NULL) (void)end->driver->cuMemFreeHost(end->record);
  if (end->uploads != NULL) (void)end->driver->cuStreamDestroy(end->uploads);
  if (end->code != NULL) cuda_code_release(end->code);
  free(end->imported);
  free(end->local);
  return status;
}

/* Releases the end in its context, which then may end too. */
static coll_status_t discard(cuda_end_t *end) {
  cuda_capture_mode_t mode;
  cuda_resident_release(end->claim);
  coll_status_t status = cuda_end_enter(end, &mode);
  if (status == COLL_OK) {
    status = release(end);
    cuda_end_leave(end, mode);
  }
  (void)end->driver->cuDevicePrimaryCtxRelease(end->device);
  free(end);
  return status;
}

coll_status_t cuda_end_create(const cuda_driver_t *driver, const cuda_end_config_t *config,
                              cuda_end_t **end) {
  cuda_end_t *made;
  cuda_capture_mode_t mode;
  if (cuda_image(COLL_INT8, GPU_OPS_SUM) == NULL) {
    return base_fail(COLL_ERROR_UNSUPPORTED,
                     "this build of libcoll has no kernel for GPUs: configure it with "
                     "-Dcuda=enabled, which needs nvcc");
  }
  COLL_TRY(cuda_driver_check_device(driver, config->device));
  COLL_TRY(base_alloc(1, sizeof *made, "a GPU's end", (void **)&made));
  made->driver = driver;
  made->rank = config->rank;
  made->size = config->size;
  made->device = config->device;
  made->process = config->process;
  made->config = *config;
  if (config->protocols == 0) made->config.protocols = CUDA_PROTOCOLS_DEFAULT;
  made->room = cuda_end_room(config->size, made->config.protocols);
  coll_status_t status =
      CUDA_END_CALL(made, cuDevicePrimaryCtxRetain, &made->context, made->device);
  if (status != COLL_OK) {
    free(made);
    return status;
  }
  status = cuda_end_enter(made, &mode);
  if (status == COLL_OK) {
    status = build(made);
    cuda_end_leave(made, mode);
  }
  if (status != COLL_OK) {
    (void)discard(made);
    return status;
  }
  *end = made;
  return COLL_OK;
}

void cuda_end_describe(const cuda_end_t *end, cuda_record_t *record) {
  *record = (cuda_record_t){.process = end->process,
                            .gpu = end->gpu,
                            .arena = (uint64_t)(uintptr_t)end->arena,
                            .arena_bytes = end->arena->memory.bytes,
                            .multiprocessors = end->multiprocessors,
                            .blocks_each = end->code->blocks_each,
                            .engine = (int32_t)end->config.engine,
                            .protocols = end->config.protocols,
                            .mps = end->mps};
}

coll_status_t cuda_end_export(const cuda_end_t *end, int *descriptor) {
  return cuda_memory_export(end->driver, &end->arena->memory, descriptor);
}

coll_status_t cuda_end_arena_release(const cuda_driver_t *driver, cuda_end_arena_t *arena) {
  if (arena == NULL || add_users(arena, -1) > 0) return COLL_OK;
  coll_status_t status = cuda_memory_free(driver, &arena->memory);
  free(arena);
  return status;
}

/* ---- while it is in use ----------------------------------------------------------------------*/

void cuda_end_abort(cuda_end_t *end) {
  cuda_capture_mode_t mode;
  bool idle;
  __atomic_store_n(&end->words->abort, 1, __ATOMIC_RELAXED);
  if (end->copy == NULL || cuda_end_enter(end, &mode) != COLL_OK) return;
  (void)cuda_copy_abort(end->copy, &idle);
  cuda_end_leave(end, mode);
}

bool cuda_end_has_failed(const cuda_end_t *end) {
  return __atomic_load_n(&end->words->failed, __ATOMIC_RELAXED) != 0 ||
         (end->copy != NULL && cuda_copy_was_cut(end->copy));
}

bool cuda_end_find_mismatch(const cuda_end_t *end, gpu_mismatch_t *mismatch) {
  /* acquire: the report that was written before */
  if (__atomic_load_n(&end->words->failed, __ATOMIC_ACQUIRE) != GPU_FAILED_MISMATCH) return false;
  *mismatch = end->record->mismatch;
  return mismatch->is_found != 0;
}

bool cuda_end_is_running(const cuda_end_t *end, uint64_t *ended) {
  *ended = __atomic_load_n(&end->record->ended, __ATOMIC_RELAXED);
  return __atomic_load_n(&end->record->begun, __ATOMIC_RELAXED) != *ended;
}

plan_room_t cuda_end_plan_room(const cuda_end_t *end) {
  return (plan_room_t){.slot_bytes = end->room.slot_bytes,
                       .scratch_bytes = gpu_scratch_bytes(&end->room, end->room.slices)};
}

cuda_event_t cuda_end_last(const cuda_end_t *end) {
  return end->last;
}

coll_status_t cuda_end_query(cuda_end_t *end) {
  return end->last == NULL ? COLL_OK : cuda_end_query_event(end, end->last);
}

coll_status_t cuda_end_query_event(const cuda_end_t *end, cuda_event_t event) {
  cuda_capture_mode_t mode;
  COLL_TRY(cuda_end_enter(end, &mode));
  cuda_result_t result = end->driver->cuEventQuery(event);
  cuda_end_leave(end, mode);
  if (result == CUDA_RESULT_NOT_READY) return COLL_IN_PROGRESS;
  return cuda_driver_check(end->driver, result, "cuEventQuery", end->device);
}

coll_status_t cuda_end_synchronize(cuda_end_t *end) {
  cuda_capture_mode_t mode;
  if (end->last == NULL) return COLL_OK;
  COLL_TRY(cuda_end_enter(end, &mode));
  coll_status_t status = CUDA_END_CALL(end, cuEventSynchronize, end->last);
  cuda_end_leave(end, mode);
  return status;
}

coll_status_t cuda_end_destroy(cuda_end_t *end) {
  if (end == NULL) return COLL_OK;
  /* the copy engines' executor waits for its calls, which may have been cut short */
  coll_status_t status = end->copy == NULL ? cuda_end_synchronize(end) : COLL_OK;
  coll_status_t freed = discard(end);
  return status != COLL_OK ? status : freed;
}
