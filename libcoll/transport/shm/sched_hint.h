/*
 * Scheduling hints for ranks that outnumber cores, where each context switch is expensive. Every
 * rank that waits publishes its processor, its progress and the ranks it waits for ("missing").
 * From that, another rank on the same processor decides whether giving up the core helps.
 */
#ifndef TRANSPORT_SHM_SCHED_HINT_H
#define TRANSPORT_SHM_SCHED_HINT_H

#include <stdbool.h>
#include <stdint.h>

/* Written by the owner alone. The processor changes rarely and has cache lines of its own; the rest
 * changes with every wait. */
typedef struct shm_hint {
  /* 1 + the processor on which the owner last waited; 0: none yet. */
  _Alignas(128) _Atomic uint32_t processor;
  /* As for transport_ops_t.yield_hint. A reader may combine values of two different waits; the
   * effect is one useless yield, or a few more polls. */
  _Alignas(128) _Atomic uint64_t progress;
  _Atomic uint64_t missing;
  _Atomic uint64_t updates; /* number of calls of shm_hint_publish */
  _Atomic bool yielded;     /* the owner is inside sched_yield */
} shm_hint_t;

/* Private to a rank, per peer: whether the peer may not yet have seen the latest message to it. */
typedef struct shm_unseen {
  bool pending;
  uint64_t updates; /* the peer's `updates` when the message was sent */
} shm_unseen_t;

/* Publishes that the owner waits, on the processor it runs on now. */
void shm_hint_publish(shm_hint_t *own, uint64_t progress, uint64_t missing);

/* Calls sched_yield, and publishes that. */
void shm_hint_yield(shm_hint_t *own);

/* Returns whether `peer` last waited on the same processor as `own`. */
bool shm_hint_shares_core(const shm_hint_t *peer, const shm_hint_t *own);

/* Returns whether `peer` shares the processor of `own` and may make progress if it gets the core:
 * its progress is behind that of `own`, or equal while the two miss no rank in common. A peer that
 * waits for `rank`, the owner of `own`, may only if `rank` has sent to it since it last ran. sent:
 * `rank` has sent to the peer since the last call. A peer that has never published may always. */
bool shm_hint_may_advance(const shm_hint_t *peer, shm_unseen_t *unseen, bool sent,
                          const shm_hint_t *own, int rank);

/* Returns whether `peer`, on another processor than the caller, is likely to send soon. If it runs,
 * it must not wait for a rank on the caller's processor (bit r % 64 of `core_peers`). If it has
 * yielded, no other rank may run on its processor (bit c % 64 of `busy_cores` for processor c). */
bool shm_hint_will_advance(const shm_hint_t *peer, uint64_t core_peers, uint64_t busy_cores);

/* The bit of the processor that `peer` runs on; 0 while it yields. */
uint64_t shm_hint_running_core(const shm_hint_t *peer);

#endif
