/*
 * Ranks at the same place of a plan wait for the same: where one of them misses a rank from
 * elsewhere, so do its neighbours, and none of them can use the core before that rank has come.
 */
#include "transport/shm/sched_hint.h"

#include <sched.h>
#include <stdatomic.h>

static uint64_t load(const _Atomic uint64_t *word) {
  return atomic_load_explicit(word, memory_order_relaxed);
}

void shm_hint_publish(shm_hint_t *own, uint64_t place, uint64_t missing) {
  uint32_t processor = (uint32_t)(sched_getcpu() + 1);
  if (atomic_load_explicit(&own->processor, memory_order_relaxed) != processor) {
    atomic_store_explicit(&own->processor, processor, memory_order_relaxed);
  }
  atomic_store_explicit(&own->place, place, memory_order_relaxed);
  atomic_store_explicit(&own->missing, missing, memory_order_relaxed);
  atomic_store_explicit(&own->told, load(&own->told) + 1, memory_order_relaxed);
}

/* Of what comes after, nobody knows yet. */
void shm_hint_yield(shm_hint_t *own) {
  atomic_store_explicit(&own->away, true, memory_order_relaxed);
  sched_yield();
  atomic_store_explicit(&own->away, false, memory_order_relaxed);
  atomic_store_explicit(&own->missing, 0, memory_order_relaxed);
}

bool shm_hint_shares_core(const shm_hint_t *peer, const shm_hint_t *own) {
  return atomic_load_explicit(&peer->processor, memory_order_relaxed) ==
         atomic_load_explicit(&own->processor, memory_order_relaxed);
}

static uint64_t processor_bit(const shm_hint_t *stand) {
  return UINT64_C(1) << atomic_load_explicit(&stand->processor, memory_order_relaxed) % 64;
}

uint64_t shm_hint_core(const shm_hint_t *peer) {
  return atomic_load_explicit(&peer->away, memory_order_relaxed) ? 0 : processor_bit(peer);
}

bool shm_hint_will_advance(const shm_hint_t *peer, uint64_t near, uint64_t held) {
  if (atomic_load_explicit(&peer->away, memory_order_relaxed)) {
    return (held & processor_bit(peer)) == 0;
  }
  return (load(&peer->missing) & near) == 0;
}

/* Between two asks a peer on the same processor has told anew if it has run, and then it has seen
 * what it was sent before. */
static void mind_sent(const shm_hint_t *peer, shm_unseen_t *unheard, bool sent) {
  uint64_t told = load(&peer->told);
  if (sent) {
    *unheard = (shm_unseen_t){.is = true, .told = told};
  } else if (unheard->told != told) {
    unheard->is = false;
  }
}

bool shm_hint_may_advance(const shm_hint_t *peer, shm_unseen_t *unheard, bool sent,
                          const shm_hint_t *own, int rank) {
  uint32_t here = atomic_load_explicit(&own->processor, memory_order_relaxed);
  uint32_t there = atomic_load_explicit(&peer->processor, memory_order_relaxed);
  if (there != here) { /* its other words are not looked at, as they are in another cache */
    if (sent) *unheard = (shm_unseen_t){.is = true};
    return there == 0;
  }
  uint64_t asker = UINT64_C(1) << rank % 64, missing = load(&peer->missing);
  mind_sent(peer, unheard, sent);
  if (unheard->is) missing &= ~asker;
  if ((missing & asker) != 0) return false;
  uint64_t place = load(&peer->place), own_place = load(&own->place);
  if (place != own_place) return place < own_place;
  return (missing & load(&own->missing)) == 0;
}
