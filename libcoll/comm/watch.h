/*
 * Checks of a sleeping thread: whether the communicator has failed, a peer has died or left, a peer
 * waits in a different call, or ranks wait for each other. For this, each sleeping rank publishes
 * its wait in its flight recorder.
 */
#ifndef COMM_WATCH_H
#define COMM_WATCH_H

#include "comm/task.h"

/* The state of one wait. Initialize it with zeros. */
typedef struct comm_watch {
  int sleeps;                       /* since the last progress */
  struct coll_comm *suspected_comm; /* its suspected_peer was found lost once; NULL: none */
  int suspected_peer;
  comm_task_t *tasks; /* the waits of these are published; NULL: none */
  unsigned turns;     /* checks so far, but for those that found a peer lost */
  /* With many ranks, where the next checks of peers begin, in the order of watch.c. */
  int next_waited, next_needed;
  uint64_t begin_ns; /* when the wait was first published */
  uint64_t shown_ns; /* when it was last made visible to ranks of other hosts; 0: never */
} comm_watch_t;

/* Called before the first sleep and after each sleep without progress. Fails, after it ended the
 * communicator, with that communicator's failure, with COLL_ERROR_RANK_LOST if a peer died, with
 * COLL_ERROR_MISMATCH (coll.h defines a mismatch), or with COLL_ERROR_TIMEOUT (hang.h). */
coll_status_t comm_watch_tasks(comm_watch_t *watch, comm_task_t *tasks);

/* The tasks made progress: withdraws the published waits. */
void comm_watch_end(comm_watch_t *watch);

/* Fails the communicator because the peer, whose state is LEFT or LOST, is not there any more in
 * the call that this rank waits in. */
coll_status_t comm_watch_fail_left(struct coll_comm *comm, int peer, transport_peer_state_t state);

#endif
