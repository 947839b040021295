/*
 * Ranks with equal progress are at the same step of a plan and wait for the same messages. If one
 * of them waits for a rank on another processor, the others do too, and none of them can use the
 * core until that rank has sent.
 */
#include "transport/shm/sched_hint.h"

#include <sched.h>
#include <stdatomic.h>

static uint64_t load(const _Atomic uint64_t *word) {
  return atomic_load_explicit(word, memory_order_relaxed);
}

void shm_hint_publish(shm_hint_t *own, uint64_t progress, uint64_t missing) {
  uint32_t processor = (uint32_t)(sched_getcpu() + 1);
  if (atomic_load_explicit(&own->processor, memory_order_relaxed) != processor) {
    atomic_store_explicit(&own->processor, processor, memory_order_relaxed);
  }
  atomic_store_explicit(&own->progress, progress, memory_order_relaxed);
  atomic_store_explicit(&own->missing, missing, memory_order_relaxed);
  atomic_store_explicit(&own->updates, load(&own->updates) + 1, memory_order_relaxed);
}

/* After the yield, the set of missing ranks is out of date and is cleared. */
void shm_hint_yield(shm_hint_t *own) {
  atomic_store_explicit(&own->yielded, true, memory_order_relaxed);
  sched_yield();
  atomic_store_explicit(&own->yielded, false, memory_order_relaxed);
  atomic_store_explicit(&own->missing, 0, memory_order_relaxed);
}

bool shm_hint_shares_core(const shm_hint_t *peer, const shm_hint_t *own) {
  return atomic_load_explicit(&peer->processor, memory_order_relaxed) ==
         atomic_load_explicit(&own->processor, memory_order_relaxed);
}

static uint64_t processor_bit(const shm_hint_t *hint) {
  return UINT64_C(1) << atomic_load_explicit(&hint->processor, memory_order_relaxed) % 64;
}

uint64_t shm_hint_running_core(const shm_hint_t *peer) {
  return atomic_load_explicit(&peer->yielded, memory_order_relaxed) ? 0 : processor_bit(peer);
}

bool shm_hint_will_advance(const shm_hint_t *peer, uint64_t core_peers, uint64_t busy_cores) {
  if (atomic_load_explicit(&peer->yielded, memory_order_relaxed)) {
    return (busy_cores & processor_bit(peer)) == 0;
  }
  return (load(&peer->missing) & core_peers) == 0;
}

/* A peer on this processor that has published again since the last call has run, and has then seen
 * everything sent to it before that. */
static void note_sent(const shm_hint_t *peer, shm_unseen_t *unseen, bool sent) {
  uint64_t updates = load(&peer->updates);
  if (sent) {
    *unseen = (shm_unseen_t){.pending = true, .updates = updates};
  } else if (unseen->updates != updates) {
    unseen->pending = false;
  }
}

bool shm_hint_may_advance(const shm_hint_t *peer, shm_unseen_t *unseen, bool sent,
                          const shm_hint_t *own, int rank) {
  uint32_t here = atomic_load_explicit(&own->processor, memory_order_relaxed);
  uint32_t there = atomic_load_explicit(&peer->processor, memory_order_relaxed);
  if (there != here) { /* reads no more: the peer's other words are in another core's cache */
    if (sent) *unseen = (shm_unseen_t){.pending = true};
    return there == 0;
  }
  uint64_t own_bit = UINT64_C(1) << rank % 64, missing = load(&peer->missing);
  note_sent(peer, unseen, sent);
  if (unseen->pending) missing &= ~own_bit;
  if ((missing & own_bit) != 0) return false;
  uint64_t progress = load(&peer->progress), own_progress = load(&own->progress);
  if (progress != own_progress) return progress < own_progress;
  return (missing & load(&own->missing)) == 0;
}
