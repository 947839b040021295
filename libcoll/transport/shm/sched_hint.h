/*
 * Ranks that outnumber cores take turns, and a turn is dear. Each one that waits says where it is,
 * how far it has come and whom it misses; so the others tell whether the core is of use to it.
 */
#ifndef TRANSPORT_SHM_SCHED_HINT_H
#define TRANSPORT_SHM_SCHED_HINT_H

#include <stdbool.h>
#include <stdint.h>

/* The owner's lines alone: what changes rarely apart from what changes with every wait. */
typedef struct shm_hint {
  /* 1 + the processor that the owner was last seen to wait on; 0: none yet. */
  _Alignas(128) _Atomic uint32_t processor;
  /* As transport_ops_t says. A reader may find them of two different waits: it then yields once in
   * vain, or looks a little longer. */
  _Alignas(128) _Atomic uint64_t place;
  _Atomic uint64_t missing;
  _Atomic uint64_t told; /* how often */
  _Atomic bool away;     /* the owner has given up its core, and has not yet got it back */
} shm_hint_t;

/* What a rank remembers of a peer, for itself: whether the peer has yet to see what it was sent. */
typedef struct shm_unseen {
  bool is;
  uint64_t told; /* how often the peer had told how it stands when it was sent */
} shm_unseen_t;

/* The rank waits on the processor that it runs on now. */
void shm_hint_publish(shm_hint_t *own, uint64_t place, uint64_t missing);

/* Lets other threads have the core. */
void shm_hint_yield(shm_hint_t *own);

/* Whether `peer` was last seen on the processor of `own`. */
bool shm_hint_shares_core(const shm_hint_t *peer, const shm_hint_t *own);

/* Whether `peer`, if it shares the processor of `own`, which is rank `rank`'s, may go on: when it
 * last told it was further behind, or missed none that `own` misses too; nor does it wait for
 * `rank`. sent: the rank has sent the peer something since the last time that it asked. */
bool shm_hint_may_advance(const shm_hint_t *peer, shm_unseen_t *unheard, bool sent,
                          const shm_hint_t *own, int rank);

/* Whether something may soon come of `peer`, on another processor than the rank that asks: it has
 * its core, or is about to get it, as no rank has (bit c % 64 of `held` for processor c); and it
 * waits for none of the ranks on the asker's processor (bit r % 64 of `near`). */
bool shm_hint_will_advance(const shm_hint_t *peer, uint64_t near, uint64_t held);

/* The bit of `peer`'s processor, if `peer` has it. */
uint64_t shm_hint_core(const shm_hint_t *peer);

#endif
