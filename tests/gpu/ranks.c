/* Memory, and threads under a time limit. */
#include "gpu/ranks.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdlib.h>

#include "base/clock.h"

#define LIMIT_MS 60000

gpu_room_t ranks_room(int size) {
  return (gpu_room_t){.size = size,
                      .channels = 16,
                      .slices = 4,
                      .rings = 64,
                      .depth = 4,
                      .slot_bytes = 1024,
                      .scratch_bytes = 4 * 4096,
                      .ll_slot_bytes = 1024,
                      .ll128_slot_bytes = 2048};
}

gpu_program_t *ranks_program(coll_collective_t collective, const char *algorithm, int size,
                             int rank) {
  const plan_shape_t shape = {.collective = collective, .size = size};
  const algo_t *algo;
  plan_t *plan = NULL;
  gpu_program_t *program = NULL;
  cr_assert_eq(algo_find(collective, algorithm, &algo), COLL_OK, "%s", base_last_error());
  cr_assert_eq(algo_build(algo, &shape, rank, false, &plan), COLL_OK, "%s", base_last_error());
  cr_assert_eq(gpu_bind_program(plan, rank, &program), COLL_OK, "%s", base_last_error());
  plan_free(plan);
  return program;
}

void ranks_init_rank(ranks_t *ranks, int rank) {
  ranks->records[rank] = calloc(1, gpu_record_bytes(&ranks->room));
  if (ranks->records[rank] == NULL) abort();
  ranks->ranks[rank] = (gpu_rank_t){.room = ranks->room,
                                    .rank = rank,
                                    .abort = &ranks->abort,
                                    .failed = &ranks->failed[rank],
                                    .record = ranks->records[rank],
                                    .arenas = ranks->arenas};
}

void ranks_init(ranks_t *ranks, const gpu_room_t *room, uint32_t capacity) {
  *ranks = (ranks_t){.room = *room};
  virtual_device_init(&ranks->device, capacity);
  for (int rank = 0; rank < room->size; rank++) {
    size_t bytes = gpu_arena_bytes(room);
    ranks->arenas[rank] = aligned_alloc(GPU_LINE, bytes);
    if (ranks->arenas[rank] == NULL) abort();
    memset(ranks->arenas[rank], 0, bytes);
    ranks_init_rank(ranks, rank);
  }
}

void ranks_free(ranks_t *ranks) {
  for (int rank = 0; rank < ranks->room.size; rank++) {
    free(ranks->arenas[rank]);
    free(ranks->records[rank]);
  }
  virtual_device_destroy(&ranks->device);
}

typedef struct stream {
  void (*run)(void *context, int rank);
  void *context;
  int rank;
  pthread_t thread;
  uint32_t *ended;
} stream_t;

static void *run_stream(void *argument) {
  stream_t *stream = argument;
  stream->run(stream->context, stream->rank);
  __atomic_fetch_add(stream->ended, 1, __ATOMIC_RELEASE);
  return NULL;
}

static bool any_failed(const ranks_t *ranks) {
  for (int rank = 0; rank < ranks->room.size; rank++) {
    if (gpu_load_relaxed(&ranks->failed[rank]) != 0) return true;
  }
  return false;
}

bool ranks_run(ranks_t *ranks, void (*run)(void *context, int rank), void *context) {
  stream_t streams[QUESTION_RANKS_MAX];
  uint32_t ended = 0, size = (uint32_t)ranks->room.size;
  bool in_time = true;
  for (uint32_t i = 0; i < size; i++) {
    streams[i] = (stream_t){.run = run, .context = context, .rank = (int)i, .ended = &ended};
    if (pthread_create(&streams[i].thread, NULL, run_stream, &streams[i]) != 0) abort();
  }
  for (int waited_ms = 0; __atomic_load_n(&ended, __ATOMIC_ACQUIRE) < size; waited_ms++) {
    base_clock_sleep_ns(1000000);
    in_time = in_time && waited_ms < LIMIT_MS;
    if (!in_time || any_failed(ranks)) gpu_store_relaxed(&ranks->abort, 1);
  }
  for (uint32_t i = 0; i < size; i++) pthread_join(streams[i].thread, NULL);
  return in_time;
}

bool ranks_launch(ranks_t *ranks, int rank, const gpu_program_t *program,
                  const gpu_request_t *request, int slices, uint64_t seed) {
  ranks_launch_t launch = ranks->launch != NULL ? ranks->launch : ranks_launch_kernel;
  return launch(ranks, rank, program, request, slices, seed);
}

bool ranks_launch_kernel(ranks_t *ranks, int rank, const gpu_program_t *program,
                         const gpu_request_t *request, int slices, uint64_t seed) {
  gpu_call_t call;
  if (gpu_bind_call(&ranks->room, &ranks->ranks[rank], program, program, request, slices, &call) !=
      COLL_OK) {
    return false;
  }
  virtual_launch(&ranks->device, &call, gpu_call_blocks(program, slices), seed);
  return true;
}
