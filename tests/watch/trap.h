/*
 * A rank that dies at a step: its transports are wrapped, so that it kills itself in place of the
 * step that the record names. Shared by the tests of deaths.
 */
#ifndef TESTS_WATCH_TRAP_H
#define TESTS_WATCH_TRAP_H

#include "comm/comm.h"
#include "harness/death.h"
#include "harness/faults.h"
#include "harness/party.h"

/* Called by the victim. */
static inline void trap_set(const party_rank_t *self, death_record_t *record) {
  struct coll_comm *comm = self->comm;
  transport_t *trap = faults_wrap(comm->local, 1, 0);
  faults_die(trap, record);
  for (int peer = 0; peer < self->size; peer++) {
    if (peer != self->rank) comm->world.routes[peer] = trap;
  }
}

#endif
