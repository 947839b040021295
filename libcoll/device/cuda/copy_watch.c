/* What is done from aside: the end of waits, and whom calls wait for. */
#include "base/clock.h"
#include "device/cuda/copy_parts.h"

#define ABORT_INTERVAL_NS 1000000

/* A number that no flag reaches. Flags are compared as signed numbers. */
#define ABORT_VALUE ((uint64_t)1 << 62)

/* ---- abort ----------------------------------------------------------------------------------*/

static coll_status_t is_idle(cuda_copy_t *copy, bool *idle) {
  /* acquire: with the streams */
  int count = atomic_load_explicit(&copy->queue_count, memory_order_acquire);
  *idle = true;
  for (int i = 0; i < count && *idle; i++) {
    cuda_result_t result = copy->driver->cuStreamQuery(copy->queues[i].stream);
    *idle = result != CUDA_RESULT_NOT_READY;
    if (*idle) COLL_TRY(cuda_driver_check(copy->driver, result, "cuStreamQuery", copy->device));
  }
  return COLL_OK;
}

static coll_status_t raise_flags(const cuda_copy_t *copy) {
  const gpu_room_t *room = &copy->rank.room;
  char *arena = copy->arenas[copy->rank.rank];
  cuda_values_t values;
  cuda_values_begin(copy->driver, copy->device, copy->aside, &values);
  for (int32_t peer = 0; peer < room->size; peer++) {
    for (int32_t channel = 0; channel < room->channels; channel++) {
      const gpu_fifo_t *fifo = gpu_arena_fifo(room, arena, peer, channel);
      COLL_TRY(cuda_values_store(&values, fifo->sent, ABORT_VALUE));
      COLL_TRY(cuda_values_store(&values, &fifo->taken, ABORT_VALUE));
      COLL_TRY(cuda_values_store(&values, fifo->signals, ABORT_VALUE));
    }
  }
  return cuda_values_queue(&values);
}

/* Not more often than every ABORT_INTERVAL_NS, whoever calls it. */
static bool is_time(cuda_copy_t *copy) {
  uint64_t now_ns = base_clock_now_ns();
  uint_fast64_t last_ns = atomic_load(&copy->aborted_ns);
  if (last_ns != 0 && now_ns - last_ns < ABORT_INTERVAL_NS) return false;
  return atomic_compare_exchange_strong(&copy->aborted_ns, &last_ns, now_ns);
}

coll_status_t copy_end_waits(cuda_copy_t *copy, bool *idle) {
  COLL_TRY(is_idle(copy, idle));
  if (*idle) return COLL_OK;
  atomic_store(&copy->cut, true);
  return is_time(copy) ? raise_flags(copy) : COLL_OK;
}

coll_status_t cuda_copy_abort(cuda_copy_t *copy, bool *idle) {
  *idle = false;
  atomic_store(&copy->aborted, true);
  COLL_TRY(cuda_context_enter(copy->driver, copy->device));
  coll_status_t status = copy_end_waits(copy, idle);
  cuda_context_leave(copy->driver, copy->device);
  return status;
}

bool cuda_copy_was_cut(const cuda_copy_t *copy) {
  return atomic_load(&copy->cut);
}

/* ---- whom calls wait for --------------------------------------------------------------------*/

/* The flags of all peers, as they are now: they are next to each other. */
static coll_status_t read_flags(const cuda_copy_t *copy) {
  const gpu_room_t *room = &copy->rank.room;
  const gpu_fifo_t *fifos = gpu_arena_fifo(room, copy->arenas[copy->rank.rank], 0, 0);
  COLL_TRY(COPY_CALL(copy, cuMemcpyAsync, (cuda_ptr_t)(uintptr_t)copy->seen,
                     (cuda_ptr_t)(uintptr_t)fifos, gpu_arena_fifos(room) * sizeof *fifos,
                     copy->aside));
  return COPY_CALL(copy, cuStreamSynchronize, copy->aside);
}

static bool is_missing(uint64_t flag, uint64_t number) {
  return (int64_t)(flag - number) < 0;
}

static bool misses_any(const cuda_copy_t *copy, int peer) {
  const gpu_room_t *room = &copy->rank.room;
  uint64_t depth = (uint64_t)room->depth;
  for (int32_t channel = 0; channel < room->channels; channel++) {
    const copy_counters_t *counters = &copy->counters[peer * room->channels + channel];
    const gpu_fifo_t *seen = &copy->seen[gpu_arena_fifo_index(room, peer, channel)];
    uint64_t sent = copy_count(&counters->sent), slots = sent > depth ? sent - depth : 0;
    if (is_missing(seen->sent[0], copy_count(&counters->taken)) || is_missing(seen->taken, slots) ||
        is_missing(seen->signals[0], copy_count(&counters->waits))) {
      return true;
    }
  }
  return false;
}

coll_status_t cuda_copy_waits(cuda_copy_t *copy, bool waits[]) {
  int size = copy->rank.room.size;
  for (int peer = 0; peer < size; peer++) waits[peer] = false;
  COLL_TRY(cuda_context_enter(copy->driver, copy->device));
  pthread_mutex_lock(&copy->look);
  coll_status_t status = read_flags(copy);
  for (int peer = 0; peer < size && status == COLL_OK; peer++) {
    waits[peer] = misses_any(copy, peer);
  }
  pthread_mutex_unlock(&copy->look);
  cuda_context_leave(copy->driver, copy->device);
  return status;
}
