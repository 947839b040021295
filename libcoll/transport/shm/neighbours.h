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
} shm_stand_t;

/* The rank waits on the processor that it runs on now. */
void shm_stand_tell(shm_stand_t *own, uint64_t place, uint64_t missing);

/* Whether rank `peer`, if it shares `own`'s processor, may go on: it was further behind when it
 * last told, or misses none that `own`, rank `rank`, misses too. */
bool shm_stand_may_go_on(const shm_stand_t *peer, const shm_stand_t *own, int rank);

#endif
