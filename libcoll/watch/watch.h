/*
 * Checks of a sleeping thread: whether the communicator has failed, a peer has died or left, a peer
 * waits in a different call, or ranks wait for each other. For this, each sleeping rank publishes
 * its wait in its flight recorder.
 */
#ifndef WATCH_WATCH_H
#define WATCH_WATCH_H

#include "comm/comm.h"

/* The state of one wait. Initialize it with zeros. */
typedef struct watch {
  int sleeps;                       /* since the last progress */
  struct coll_comm *suspected_comm; /* its suspected_peer was found lost once; NULL: none */
  int suspected_peer;
  unsigned turns; /* checks so far, but for those that found a peer lost */
  /* With many ranks, where the next checks of peers begin, in the order of watch.c. */
  int next_waited, next_needed;
  uint64_t begin_ns; /* when the wait began */
  uint64_t shown_ns; /* when it was last made visible to ranks of other hosts; 0: never */
} watch_t;

/* What a thread waits in and for, on one communicator. */
typedef struct watch_waiting {
  struct coll_comm *comm; /* its waits_for: the ranks */
  flight_call_t call;     /* the first of its calls, */
  uint64_t number;        /* the number of that, */
  uint64_t history;       /* and what came before (flight/call.h) */
  bool may_be_ended;      /* another thread may make a call that ends the wait */
  bool has_collective;    /* one of the calls is a collective, */
  uint64_t collective;    /* of this number */
} watch_waiting_t;

/* For each communicator of a waiting thread, before the first sleep and after each sleep without
 * progress: publishes the wait and looks for what ends it. *lost, in and out: a peer was found lost
 * for the first time, so that the thread polls once more instead of checking others. Fails, after
 * it ended the communicator, with that communicator's failure, with COLL_ERROR_RANK_LOST if a peer
 * died, with COLL_ERROR_MISMATCH (coll.h defines a mismatch), or with COLL_ERROR_TIMEOUT (hang.h).
 */
coll_status_t watch_check(watch_t *watch, const watch_waiting_t *waiting, bool *lost);

/* All were checked. lost: by the last check. */
void watch_turn(watch_t *watch, bool lost);

/* The thread waits no more on the communicator: withdraws what was published. */
void watch_withdraw(const watch_t *watch, struct coll_comm *comm);

/* Fails the communicator because the peer, whose state is LEFT or LOST, is not there any more in
 * the call that this rank waits in. */
coll_status_t watch_fail_left(struct coll_comm *comm, int peer, transport_peer_state_t state);

#endif
