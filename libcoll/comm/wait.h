/*
 * How a thread waits while nothing moves: it looks again at once for a while, then lets other
 * threads have the core between looks, then sleeps in the kernel until a peer has news; and
 * between sleeps it watches its peers (watch.h).
 */
#ifndef COMM_WAIT_H
#define COMM_WAIT_H

#include "comm/task.h"

typedef struct comm_wait {
  bool in_background;   /* as comm_batch_run was told */
  int looks;            /* since something last moved */
  bool asked;           /* whether neighbours have use for the core, since it was last given up */
  int patience_max;     /* looks that it is kept for, as they have little */
  int patience;         /* looks spent in this way since something last moved */
  bool armed;           /* `transport` will wake us; one more look is due before we sleep */
  uint64_t yielding_ns; /* when it began to let others have the core; 0: not yet */
  int sleeps;           /* since something last moved */
  transport_t *asker;   /* told neighbours how it stands; NULL: none did */
  struct coll_comm *suspected_comm; /* on which a peer was found gone once; NULL: none */
  int suspected_peer;
  comm_task_t *watched; /* the tasks whose waits are published (watch.h); NULL: none are */
  size_t watched_count;
  uint64_t begin_ns; /* when the wait was first published */
  transport_t *transport;
} comm_wait_t;

void comm_wait_end(comm_wait_t *wait);

/* Something moved: the next wait starts from the beginning. */
static inline void comm_wait_reset(comm_wait_t *wait) {
  if (wait->looks > 0 || wait->asked) comm_wait_end(wait);
}

/* Nothing moved in any of the tasks. Waits a little. Fails as comm_watch does. */
coll_status_t comm_wait_step(comm_wait_t *wait, comm_task_t tasks[], size_t count);

#endif
