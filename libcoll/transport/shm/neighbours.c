/*
 * Ranks at the same place of a plan wait for the same: where one of them misses a rank from
 * elsewhere, so do its neighbours, and none of them can use the core before that rank has come.
 */
#include "transport/shm/neighbours.h"

#include <sched.h>
#include <stdatomic.h>

static uint64_t load(const _Atomic uint64_t *word) {
  return atomic_load_explicit(word, memory_order_relaxed);
}

void shm_stand_tell(shm_stand_t *own, uint64_t place, uint64_t missing) {
  uint32_t processor = (uint32_t)(sched_getcpu() + 1);
  if (atomic_load_explicit(&own->processor, memory_order_relaxed) != processor) {
    atomic_store_explicit(&own->processor, processor, memory_order_relaxed);
  }
  atomic_store_explicit(&own->place, place, memory_order_relaxed);
  atomic_store_explicit(&own->missing, missing, memory_order_relaxed);
}

bool shm_stand_may_go_on(const shm_stand_t *peer, const shm_stand_t *own, int rank) {
  uint32_t here = atomic_load_explicit(&own->processor, memory_order_relaxed);
  uint32_t there = atomic_load_explicit(&peer->processor, memory_order_relaxed);
  if (there == 0) return true;
  if (there != here) return false;
  uint64_t place = load(&peer->place), own_place = load(&own->place);
  if (place != own_place) return place < own_place;
  return (load(&peer->missing) & ~(UINT64_C(1) << rank % 64) & load(&own->missing)) == 0;
}
