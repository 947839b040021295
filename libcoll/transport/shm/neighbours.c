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
  atomic_store_explicit(&own->told, load(&own->told) + 1, memory_order_relaxed);
}

/* Between two asks a peer on the same processor has told anew if it has run, and then it has seen
 * what it was sent before. */
static void mind_sent(const shm_stand_t *peer, shm_unheard_t *unheard, bool sent) {
  uint64_t told = load(&peer->told);
  if (sent) {
    *unheard = (shm_unheard_t){.is = true, .told = told};
  } else if (unheard->told != told) {
    unheard->is = false;
  }
}

bool shm_stand_may_go_on(const shm_stand_t *peer, shm_unheard_t *unheard, bool sent,
                         const shm_stand_t *own, int rank) {
  uint32_t here = atomic_load_explicit(&own->processor, memory_order_relaxed);
  uint32_t there = atomic_load_explicit(&peer->processor, memory_order_relaxed);
  uint64_t asker = UINT64_C(1) << rank % 64, missing = load(&peer->missing);
  mind_sent(peer, unheard, sent);
  if (there == 0) return true;
  if (there != here) return false;
  if (unheard->is) missing &= ~asker;
  if ((missing & asker) != 0) return false;
  uint64_t place = load(&peer->place), own_place = load(&own->place);
  if (place != own_place) return place < own_place;
  return (missing & load(&own->missing)) == 0;
}
