/*
 * Queueing takes the lock of each communicator in turn, which orders the calls of several threads,
 * and waits for nothing but calls on the host that were made before.
 */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "comm/lock.h"
#include "comm/plan_cache.h"
#include "offload/places.h"
#include "run/batch.h"

#define POLL_NS 20000u

typedef struct launch {
  const run_call_t *calls;
  const offload_stream_t *streams;
  size_t count;
  offload_member_t *members; /* distinct communicators, in the order of their first calls */
  uint64_t *tickets;         /* of each */
  size_t member_count;
  gpu_transfer_t *transfers; /* [count] */
} launch_t;

/* ---- one communicator -----------------------------------------------------------------------*/

static cuda_stream_t stream_of(const offload_t *gpu, const offload_stream_t *stream) {
  return stream->is_own ? gpu->stream : stream->stream;
}

static uint64_t read_scalar(const run_call_t *call, size_t bytes) {
  uint64_t scalar = call->scalar.value;
  if (call->scalar.address != NULL) memcpy(&scalar, call->scalar.address, bytes);
  return scalar;
}

/* Among GPUs that cannot access each other's memory. */
static coll_status_t queue_staged(const run_call_t *call, const comm_traits_t *traits,
                                  cuda_stream_t stream) {
  struct coll_comm *comm = call->comm;
  offload_t *gpu = offload_of(comm);
  flight_call_t id = flight_call_on_gpu(comm_identity_of(comm, traits, call->shape.count));
  engine_call_t unused;
  uint64_t scalar = read_scalar(call, base_dtype_bytes(traits->dtype));
  uint64_t number = comm_collective_begin(comm, id, &unused);
  gpu->queued++;
  comm->plans.used[traits->collective] = NULL; /* the proxy knows it */
  COLL_TRY(offload_proxy_collective(gpu->proxy, call, scalar, stream));
  flight_complete(comm->local->flight, number + 1);
  return COLL_OK;
}

static coll_status_t queue_collective(const run_call_t *call, const offload_stream_t *stream) {
  struct coll_comm *comm = call->comm;
  offload_t *gpu = offload_of(comm);
  const comm_traits_t traits = comm_traits_of(call->shape);
  size_t element_bytes = base_dtype_bytes(traits.dtype), size = (size_t)comm->size;
  bool premul = traits.op == COMM_PREMUL && base_collective_reduces(traits.collective);
  offload_places_t places;
  offload_choice_t choice;
  uint64_t scalar = read_scalar(call, element_bytes);
  engine_call_t unused;
  size_t bytes = call->blocks != NULL ? 0 : call->shape.count * element_bytes;
  if (gpu->proxy != NULL) return queue_staged(call, &traits, stream_of(gpu, stream));
  offload_places_find(call, &traits, &places);
  const bool in_window[2] = {places.of[0].window != NULL, places.of[1].window != NULL};
  COLL_TRY(offload_choose(comm, &traits, bytes, in_window, &choice));
  cuda_request_t request = {.input = call->send,
                            .output = call->recv,
                            .count = call->shape.count,
                            .dtype = traits.dtype,
                            .op = premul ? COLL_SUM : traits.op,
                            .scalar = premul ? &scalar : NULL};
  if (call->blocks != NULL) {
    request.input_blocks = (cuda_blocks_t){call->blocks, call->blocks + size};
    request.output_blocks = (cuda_blocks_t){call->blocks + 2 * size, call->blocks + 3 * size};
  }
  flight_call_t id = flight_call_on_gpu(comm_identity_of(comm, &traits, call->shape.count));
  gpu_words_t words = {.what = id.what, .count = id.count};
  COLL_TRY(offload_places_apply(gpu, &places, choice.reaches, &words, &request));
  request.words = &words;
  uint64_t number = comm_collective_begin(comm, id, &unused);
  offload_lend_lock(gpu);
  coll_status_t status =
      cuda_end_launch(gpu->end, choice.program, &request, stream_of(gpu, stream));
  offload_take_lock_back(gpu);
  gpu->queued++;
  COLL_TRY(status);
  offload_note_launch(gpu, number, stream_of(gpu, stream));
  flight_complete(comm->local->flight, number + 1);
  return COLL_OK;
}

static size_t list_transfers(launch_t *launch, const struct coll_comm *comm) {
  size_t count = 0;
  for (size_t i = 0; i < launch->count; i++) {
    const run_call_t *call = &launch->calls[i];
    if (call->comm != comm || call->kind == RUN_COLLECTIVE) continue;
    const comm_traits_t traits = comm_traits_of(call->shape);
    bool sends = call->kind == RUN_SEND;
    launch->transfers[count++] =
        (gpu_transfer_t){.peer = traits.root,
                         .sends = sends,
                         .address = sends ? (void *)(uintptr_t)call->send : call->recv,
                         .bytes = call->shape.count * base_dtype_bytes(traits.dtype)};
  }
  return count;
}

/* The stream of the communicator's first call; the others wait for it, and it for them. */
static const offload_stream_t *first_stream(const launch_t *launch, const struct coll_comm *comm) {
  size_t i = 0;
  while (launch->calls[i].comm != comm) i++;
  return &launch->streams[i];
}

static coll_status_t queue_calls(launch_t *launch, struct coll_comm *comm) {
  const offload_stream_t *stream = first_stream(launch, comm);
  COLL_TRY(comm_failure(comm));
  for (size_t i = 0; i < launch->count; i++) {
    const run_call_t *call = &launch->calls[i];
    if (call->comm != comm || call->kind != RUN_COLLECTIVE) continue;
    COLL_TRY(queue_collective(call, stream));
  }
  size_t transfers = list_transfers(launch, comm);
  if (transfers == 0) return COLL_OK;
  offload_t *gpu = offload_of(comm);
  gpu->queued++;
  if (gpu->proxy != NULL) {
    return offload_proxy_exchange(gpu->proxy, launch->transfers, transfers, stream_of(gpu, stream));
  }
  offload_lend_lock(gpu);
  coll_status_t status =
      cuda_end_launch_exchange(gpu->end, launch->transfers, (int)transfers, stream_of(gpu, stream));
  offload_take_lock_back(gpu);
  return status;
}

/* ---- several streams of a communicator ------------------------------------------------------*/

/* Makes `later` wait for what is queued on `earlier`. */
static coll_status_t follow(const offload_t *gpu, cuda_stream_t later, cuda_stream_t earlier) {
  const cuda_driver_t *driver = gpu->driver;
  cuda_event_t event;
  cuda_capture_mode_t mode;
  COLL_TRY(cuda_context_enter_relaxed(driver, gpu->device, &mode));
  cuda_result_t result = driver->cuEventCreate(&event, CUDA_EVENT_NO_TIMING);
  if (result == CUDA_RESULT_OK) {
    result = driver->cuEventRecord(event, earlier);
    if (result == CUDA_RESULT_OK) result = driver->cuStreamWaitEvent(later, event, 0);
    (void)driver->cuEventDestroy(event); /* when it is reached */
  }
  coll_status_t status = cuda_driver_check(driver, result, "cuStreamWaitEvent", gpu->device);
  cuda_context_leave_relaxed(driver, gpu->device, mode);
  return status;
}

/* joins: the first stream of the communicator waits for its others; else they for it. */
static coll_status_t order_streams(const launch_t *launch, struct coll_comm *comm, bool joins) {
  offload_t *gpu = offload_of(comm);
  cuda_stream_t home = stream_of(gpu, first_stream(launch, comm));
  for (size_t i = 0; i < launch->count; i++) {
    if (launch->calls[i].comm != comm) continue;
    cuda_stream_t other = stream_of(gpu, &launch->streams[i]);
    if (other == home) continue;
    offload_lend_lock(gpu);
    coll_status_t status = joins ? follow(gpu, home, other) : follow(gpu, other, home);
    offload_take_lock_back(gpu);
    COLL_TRY(status);
  }
  return COLL_OK;
}

static coll_status_t queue_member(launch_t *launch, size_t index) {
  struct coll_comm *comm = launch->members[index].comm;
  comm_lock_take(comm, launch->tickets[index]);
  coll_status_t status = order_streams(launch, comm, true);
  if (status == COLL_OK) status = queue_calls(launch, comm);
  if (status == COLL_OK) status = order_streams(launch, comm, false);
  if (status != COLL_OK) {
    /* a launch that waited for other ranks ends when the communicator fails: that is the reason */
    if (!comm_is_usable(comm)) status = comm_poll_failure(comm);
    comm_fail(comm, status, comm->rank);
    comm_record_error(comm, status);
    offload_abort(offload_of(comm)); /* of its other calls, which may wait for this one */
  }
  comm_lock_release(comm);
  return status;
}

/* ---- all ------------------------------------------------------------------------------------*/

static size_t find_member(const launch_t *launch, const struct coll_comm *comm) {
  size_t i = 0;
  while (i < launch->member_count && launch->members[i].comm != comm) i++;
  return i;
}

/* The communicator's own stream is of whatever GPU its memory is on. */
static void list_members(launch_t *launch) {
  for (size_t i = 0; i < launch->count; i++) {
    struct coll_comm *comm = launch->calls[i].comm;
    size_t index = find_member(launch, comm);
    if (index < launch->member_count) continue;
    launch->members[launch->member_count++] =
        (offload_member_t){.comm = comm, .device = launch->streams[i].device};
  }
}

static coll_status_t allocate(launch_t *launch) {
  size_t count = launch->count;
  const char *what = "calls on GPUs";
  COLL_TRY(base_alloc(count, sizeof *launch->members, what, (void **)&launch->members));
  COLL_TRY(base_alloc(count, sizeof *launch->tickets, what, (void **)&launch->tickets));
  return base_alloc(count, sizeof *launch->transfers, what, (void **)&launch->transfers);
}

static coll_status_t queue_all(launch_t *launch) {
  coll_status_t first = COLL_OK;
  for (size_t i = 0; i < launch->member_count; i++) {
    launch->tickets[i] = comm_lock_ticket(launch->members[i].comm);
  }
  for (size_t i = 0; i < launch->member_count; i++) {
    coll_status_t status = queue_member(launch, i);
    if (first == COLL_OK) first = status;
  }
  return first;
}

static coll_status_t wait_for(struct coll_comm *comm) {
  offload_t *gpu = offload_of(comm);
  cuda_capture_mode_t mode;
  COLL_TRY(cuda_context_enter_relaxed(gpu->driver, gpu->device, &mode));
  cuda_result_t result = gpu->driver->cuStreamSynchronize(gpu->stream);
  cuda_context_leave_relaxed(gpu->driver, gpu->device, mode);
  coll_status_t status = cuda_driver_check(gpu->driver, result, "cuStreamSynchronize", gpu->device);
  if (status == COLL_OK && gpu->proxy != NULL) return comm_poll_failure(comm);
  if (status == COLL_OK && !cuda_end_has_failed(gpu->end)) return COLL_OK;
  comm_lock_take(comm, comm_lock_ticket(comm));
  if (status != COLL_OK) offload_fail_lost(gpu, status);
  offload_check(gpu);
  comm_lock_release(comm);
  return status != COLL_OK ? status : comm_poll_failure(comm);
}

/* Before anything is queued. */
static coll_status_t check_streams(const launch_t *launch) {
  for (size_t i = 0; i < launch->count; i++) {
    const offload_t *gpu = offload_of(launch->calls[i].comm);
    COLL_TRY(offload_check_device(launch->calls[i].comm, launch->streams[i].device));
    if (gpu->proxy != NULL) continue; /* which takes any */
    COLL_TRY(cuda_end_check_stream(gpu->end, stream_of(gpu, &launch->streams[i])));
  }
  return COLL_OK;
}

static coll_status_t connect_and_queue(launch_t *launch) {
  list_members(launch);
  coll_status_t status = offload_connect(launch->members, launch->member_count);
  if (status == COLL_OK) status = check_streams(launch);
  if (status == COLL_OK) return queue_all(launch);
  for (size_t i = 0; i < launch->count; i++) comm_record_error(launch->calls[i].comm, status);
  return status;
}

coll_status_t offload_queue(const run_call_t calls[], const offload_stream_t streams[],
                            size_t count) {
  launch_t launch = {.calls = calls, .streams = streams, .count = count};
  coll_status_t status = allocate(&launch);
  if (status == COLL_OK) {
    status = connect_and_queue(&launch);
    for (size_t i = 0; i < count; i++) run_call_free(&calls[i]);
  } else {
    run_calls_drop(calls, count, status); /* the other ranks would wait for this one */
  }
  free(launch.members);
  free(launch.tickets);
  free(launch.transfers);
  return status;
}

coll_status_t offload_complete(const run_call_t calls[], const offload_stream_t streams[],
                               size_t count) {
  coll_status_t first = COLL_OK;
  for (size_t i = 0; i < count; i++) {
    if (!streams[i].is_own || !offload_is_connected(calls[i].comm)) continue;
    coll_status_t status = wait_for(calls[i].comm);
    if (first == COLL_OK) first = status;
  }
  return first;
}

const algo_t *offload_algo_used(struct coll_comm *comm, coll_collective_t collective) {
  const algo_t *used = comm->plans.used[collective];
  if (used != NULL || !offload_is_connected(comm)) return used;
  const offload_t *gpu = offload_of(comm);
  return gpu->proxy != NULL ? offload_proxy_used(gpu->proxy, collective) : NULL;
}

/* ---- the end --------------------------------------------------------------------------------*/

coll_status_t offload_finish(struct coll_comm *comm) {
  offload_t *gpu = offload_of(comm);
  if (gpu != NULL && gpu->proxy != NULL) return offload_proxy_finish(gpu->proxy);
  if (gpu == NULL || gpu->end == NULL) return COLL_OK;
  while (cuda_end_query(gpu->end) == COLL_IN_PROGRESS) {
    offload_check(gpu);
    base_clock_sleep_ns(POLL_NS);
  }
  return cuda_end_synchronize(gpu->end);
}

/* By the holder of the lock. The driver is asked only where the host cannot know: launches that
 * were captured are counted, whether their graphs run or not. */
static coll_status_t query(offload_t *gpu) {
  uint64_t ended;
  if (gpu->proxy != NULL) return offload_proxy_query(gpu->proxy);
  if (atomic_load_explicit(&gpu->has_graphs, memory_order_relaxed)) return cuda_end_query(gpu->end);
  (void)cuda_end_is_running(gpu->end, &ended);
  return ended < gpu->queued ? COLL_IN_PROGRESS : COLL_OK;
}

coll_status_t offload_query(struct coll_comm *comm) {
  offload_t *gpu = offload_of(comm);
  uint64_t ended;
  if (!offload_is_connected(comm)) return COLL_OK;
  if (gpu->proxy != NULL ? offload_proxy_has_jobs(gpu->proxy)
                         : cuda_end_is_running(gpu->end, &ended)) {
    return COLL_IN_PROGRESS;
  }
  if (!comm_lock_try(comm)) return COLL_IN_PROGRESS; /* another thread makes a call */
  coll_status_t status = query(gpu);
  comm_lock_release(comm);
  return status;
}

void offload_free(struct coll_comm *comm) {
  offload_t *gpu = offload_of(comm);
  if (gpu == NULL) return;
  offload_watch_remove(gpu);
  cuda_capture_mode_t mode;
  if (gpu->has_stream && cuda_context_enter_relaxed(gpu->driver, gpu->device, &mode) == COLL_OK) {
    (void)gpu->driver->cuStreamDestroy(gpu->stream);
    cuda_context_leave_relaxed(gpu->driver, gpu->device, mode);
  }
  offload_proxy_free(gpu->proxy);
  if (gpu->end != NULL) (void)cuda_end_destroy(gpu->end);
  for (int i = 0; i < COLL_COLLECTIVE_COUNT; i++) free(gpu->profiles[i]);
  free(gpu);
}
