/*
 * Ranks that outnumber cores take turns, and a turn is dear. Each one that waits says where it is,
 * how far it has come and whom it misses; so the others tell whether the core is of use to it.
 */
#ifndef TRANSPORT_SHM_NEIGHBOURS_H
#define TRANSPORT_SHM_NEIGHBOURS_H

#include <stdbool.h>
#include <stdint.h>

/* The owner's lines alone: what changes rarely apart from what changes with every wait. */
typedef struct shm_stand {
  /* 1 + the processor that the owner was last seen to wait on; 0: none yet. */
  _Alignas(128) _Atomic uint32_t processor;
  /* As transport_ops_t says. A reader may find them of two different waits: it then yields once in
   * vain, or looks a little longer. */
  _Alignas(128) _Atomic uint64_t place;
  _Atomic uint64_t missing;
  _Atomic uint64_t told; /* how often */
} shm_stand_t;

/* What a rank remembers of a peer, for itself: whether the peer has yet to see what it was sent. */
typedef struct shm_unheard {
  bool is;
  uint64_t told; /* how often the peer had told how it stands when it was sent */
} shm_unheard_t;

/* The rank waits on the processor that it runs on now. */
void shm_stand_tell(shm_stand_t *own, uint64_t place, uint64_t missing);

/* Whether `peer`, if it shares the processor of `own`, which is rank `rank`'s, may go on: when it
 * last told it was further behind, or missed none that `own` misses too; nor does it wait for
 * `rank`. sent: the rank has sent the peer something since the last time that it asked. */
bool shm_stand_may_go_on(const shm_stand_t *peer, shm_unheard_t *unheard, bool sent,
                         const shm_stand_t *own, int rank);

#endif
