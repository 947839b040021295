/* Creates and destroys the executor. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "device/cuda/copy_parts.h"

#define ABORT_PRIORITY (-1000) /* the driver brings it into its range */
#define PAUSE_NS 1000000

/* ---- creation -------------------------------------------------------------------------------*/

static coll_status_t check_device(const cuda_driver_t *driver, int device) {
  int has = 0;
  COLL_TRY(cuda_driver_check(
      driver, driver->cuDeviceGetAttribute(&has, CUDA_ATTRIBUTE_STREAM_64_BIT_OPS, device),
      "cuDeviceGetAttribute", device));
  if (has != 0) return COLL_OK;
  return base_fail(COLL_ERROR_UNSUPPORTED,
                   "streams of GPU %d cannot wait for 64-bit flags, which its copy engines need",
                   device);
}

static coll_status_t create_stream(const cuda_copy_t *copy, int priority, cuda_stream_t *stream) {
  return COPY_CALL(copy, cuStreamCreateWithPriority, stream, CUDA_STREAM_NON_BLOCKING, priority);
}

static coll_status_t create_event(const cuda_copy_t *copy, cuda_event_t *event) {
  return COPY_CALL(copy, cuEventCreate, event, CUDA_EVENT_NO_TIMING);
}

static coll_status_t create_queue(const cuda_copy_t *copy, copy_queue_t *queue) {
  COLL_TRY(create_event(copy, &queue->ended));
  for (int i = 0; i < 2; i++) COLL_TRY(create_event(copy, &queue->marks[i]));
  return create_stream(copy, 0, &queue->stream);
}

coll_status_t copy_reserve_queues(cuda_copy_t *copy, int lanes) {
  int count = atomic_load_explicit(&copy->queue_count, memory_order_relaxed);
  while (count < lanes) {
    COLL_TRY(create_queue(copy, &copy->queues[count++]));
    /* release: a thread that aborts sees the stream */
    atomic_store_explicit(&copy->queue_count, count, memory_order_release);
  }
  return COLL_OK;
}

/* Streams of another priority have queues of the GPU of their own, so the stores of an abort are
 * not behind a wait that they are to end. */
static coll_status_t create_streams(cuda_copy_t *copy) {
  int few =
      copy->rank.room.channels < copy->config.lanes ? copy->rank.room.channels : copy->config.lanes;
  COLL_TRY(create_event(copy, &copy->begun));
  COLL_TRY(create_event(copy, &copy->done));
  COLL_TRY(create_stream(copy, ABORT_PRIORITY, &copy->aside));
  return copy_reserve_queues(copy, few);
}

static coll_status_t create_seen(cuda_copy_t *copy) {
  size_t bytes = gpu_arena_fifos(&copy->rank.room) * sizeof *copy->seen;
  void *memory = NULL;
  COLL_TRY(COPY_CALL(copy, cuMemHostAlloc, &memory, bytes, 0));
  copy->seen = memory;
  return COLL_OK;
}

static coll_status_t allocate(cuda_copy_t *copy, const cuda_copy_config_t *config) {
  size_t size = (size_t)config->room.size, pairs = size * (size_t)config->room.channels;
  COLL_TRY(base_alloc(size, sizeof *copy->arenas, "arenas", (void **)&copy->arenas));
  COLL_TRY(base_alloc(pairs, sizeof *copy->counters, "counters", (void **)&copy->counters));
  COLL_TRY(
      base_alloc((size_t)config->lanes, sizeof *copy->queues, "streams", (void **)&copy->queues));
  memcpy(copy->arenas, config->arenas, size * sizeof *copy->arenas);
  copy->rank = (gpu_rank_t){.room = config->room, .rank = config->rank, .arenas = copy->arenas};
  return COLL_OK;
}

/* ---- the first operations -------------------------------------------------------------------*/

/* To a place of this rank in the SCRATCH of each peer, alone and together. */
static coll_status_t copy_to_peers(const cuda_copy_t *copy) {
  const gpu_room_t *room = &copy->rank.room;
  size_t at = (size_t)copy->rank.rank * GPU_LINE;
  char *from = gpu_arena_scratch(room, copy->arenas[copy->rank.rank], 0, 1) + at;
  cuda_copies_t copies;
  cuda_copies_begin(copy->driver, copy->device, copy->queues[0].stream, false, &copies);
  for (int twice = 0; twice < 2; twice++) {
    for (int peer = 0; peer < room->size; peer++) {
      char *to = gpu_arena_scratch(room, copy->arenas[peer], 0, 1) + at;
      if (to == from) to += GPU_LINE / 2;
      COLL_TRY(cuda_copies_add(&copies, to, from, GPU_LINE / 2));
      if (twice == 0) COLL_TRY(cuda_copies_queue(&copies));
    }
  }
  return cuda_copies_queue(&copies);
}

/* With no elements. */
static coll_status_t launch_kernel(const cuda_copy_t *copy) {
  gpu_compute_t work = {.kind = GPU_COMPUTE_SCALE, .dtype = COLL_UINT8, .element_bytes = 1};
  cuda_function_t kernel = copy->config.code->compute[work.dtype][gpu_ops_of(work.op)];
  return cuda_launch(&copy->launcher, kernel, GPU_COMPUTE_BLOCKS_MAX, GPU_THREADS_MAX, &work,
                     copy->queues[0].stream);
}

/* The driver may load code and allocate memory for a first launch, and wait for the GPU to do so.
 * That must not happen in a call whose operations wait for peers. */
static coll_status_t warm_up(const cuda_copy_t *copy) {
  const gpu_room_t *room = &copy->rank.room;
  bool fits = (size_t)room->size * GPU_LINE <= room->scratch_bytes;
  cuda_stream_t stream = copy->queues[0].stream;
  COLL_TRY(launch_kernel(copy));
  if (fits) COLL_TRY(copy_to_peers(copy));
  uint64_t *flag = gpu_arena_progress(room, copy->arenas[copy->rank.rank], 0); /* is unused */
  cuda_values_t values;
  cuda_values_begin(copy->driver, copy->device, stream, &values);
  COLL_TRY(cuda_values_store(&values, flag, 1));
  COLL_TRY(cuda_values_wait(&values, flag, 1));
  COLL_TRY(cuda_values_queue(&values));
  cuda_ptr_t address = (cuda_ptr_t)(uintptr_t)flag;
  COLL_TRY(COPY_CALL(copy, cuStreamWriteValue64, stream, address, 1, 0));
  COLL_TRY(COPY_CALL(copy, cuStreamWaitValue64, stream, address, 1, CUDA_WAIT_GEQ));
  COLL_TRY(COPY_CALL(copy, cuStreamWriteValue64, copy->aside, address, 1, 0));
  COLL_TRY(COPY_CALL(copy, cuStreamSynchronize, copy->aside));
  return COPY_CALL(copy, cuStreamSynchronize, stream);
}

/* ---- the whole ------------------------------------------------------------------------------*/

static coll_status_t destroy_all(cuda_copy_t *copy);

coll_status_t cuda_copy_create(const cuda_driver_t *driver, const cuda_copy_config_t *config,
                               cuda_copy_t **copy) {
  cuda_copy_t *made;
  COLL_TRY(check_device(driver, config->device));
  COLL_TRY(cuda_context_enter(driver, config->device));
  coll_status_t status = base_alloc(1, sizeof *made, "the copy engines' executor", (void **)&made);
  if (status == COLL_OK) {
    made->config = *config;
    made->config.arenas = NULL;
    made->driver = driver;
    pthread_mutex_init(&made->look, NULL);
    made->device = config->device;
    status = cuda_launcher_init(driver, config->device, &made->launcher);
    if (status == COLL_OK) status = allocate(made, config);
    if (status == COLL_OK) status = create_streams(made);
    if (status == COLL_OK) status = create_seen(made);
    if (status == COLL_OK) status = warm_up(made);
    if (status == COLL_OK) {
      *copy = made;
    } else {
      (void)destroy_all(made);
    }
  }
  cuda_context_leave(driver, config->device);
  return status;
}

cuda_event_t cuda_copy_done(const cuda_copy_t *copy) {
  return copy->done;
}

/* ---- destruction ----------------------------------------------------------------------------*/

static void keep_first(coll_status_t *first, coll_status_t status) {
  if (*first == COLL_OK) *first = status;
}

static coll_status_t destroy_event(const cuda_copy_t *copy, cuda_event_t event) {
  return event == NULL ? COLL_OK : COPY_CALL(copy, cuEventDestroy, event);
}

static coll_status_t destroy_stream(const cuda_copy_t *copy, cuda_stream_t stream) {
  if (stream == NULL) return COLL_OK;
  coll_status_t status = COPY_CALL(copy, cuStreamSynchronize, stream);
  keep_first(&status, COPY_CALL(copy, cuStreamDestroy, stream));
  return status;
}

/* With the context, of what was created. */
static coll_status_t destroy_all(cuda_copy_t *copy) {
  coll_status_t status = COLL_OK;
  for (int i = 0; copy->queues != NULL && i < copy->config.lanes; i++) {
    copy_queue_t *queue = &copy->queues[i];
    keep_first(&status, destroy_stream(copy, queue->stream));
    keep_first(&status, destroy_event(copy, queue->ended));
    for (int k = 0; k < 2; k++) keep_first(&status, destroy_event(copy, queue->marks[k]));
  }
  keep_first(&status, destroy_stream(copy, copy->aside));
  keep_first(&status, destroy_event(copy, copy->begun));
  keep_first(&status, destroy_event(copy, copy->done));
  for (size_t i = 0; i < copy->step_count; i++) {
    keep_first(&status, destroy_event(copy, copy->steps[i]));
  }
  if (copy->seen != NULL) keep_first(&status, COPY_CALL(copy, cuMemFreeHost, copy->seen));
  pthread_mutex_destroy(&copy->look);
  free(copy->steps);
  free(copy->queues);
  free(copy->counters);
  free(copy->arenas);
  free(copy);
  return status;
}

/* Of a call that was cut short, waits may have been queued since the abort. */
static coll_status_t end_all_waits(cuda_copy_t *copy) {
  bool idle = !copy->failed && !atomic_load(&copy->aborted);
  while (!idle) {
    COLL_TRY(copy_end_waits(copy, &idle));
    if (!idle) base_clock_sleep_ns(PAUSE_NS);
  }
  return COLL_OK;
}

coll_status_t cuda_copy_destroy(cuda_copy_t *copy) {
  const cuda_driver_t *driver = copy->driver;
  int device = copy->device;
  COLL_TRY(cuda_context_enter(driver, device));
  coll_status_t status = end_all_waits(copy);
  keep_first(&status, destroy_all(copy));
  cuda_context_leave(driver, device);
  return status;
}
