/*
 * The order matters twice. Sleeping: arm, look once more, sleep; else news that came in between
 * would be slept through. Dying: what a peer sent before it died still counts, so a peer is only
 * given up when one more look after its death has moved nothing.
 */
#include "comm/wait.h"

#include <sched.h>

#include "base/atomics.h"

#define YIELD_LIMIT 64
#define SLEEP_NS 10000000u    /* how long a death may go unnoticed */
#define SLEEP_MANY_NS 200000u /* with several communicators, only one of which wakes us */

void comm_wait_reset(comm_wait_t *wait) {
  if (wait->looks == 0) return;
  if (wait->armed) wait->transport->ops->disarm(wait->transport);
  *wait = (comm_wait_t){0};
}

static bool is_under_way(const comm_task_t *task) {
  return task->state == COMM_TASK_MEETING || task->state == COMM_TASK_RUNNING;
}

static const comm_task_t *first_under_way(const comm_task_t tasks[], size_t count, bool *alone) {
  const comm_task_t *first = NULL;
  *alone = true;
  for (size_t i = 0; i < count; i++) {
    if (!is_under_way(&tasks[i])) continue;
    if (first == NULL) first = &tasks[i];
    if (tasks[i].call->comm != first->call->comm) *alone = false;
  }
  return first;
}

static coll_status_t say_gone(struct coll_comm *comm, int peer, transport_peer_state_t state) {
  base_fail(COLL_ERROR_RANK_LOST, "rank %d: rank %d (process %d) %s", comm->rank, peer,
            (int)comm->peers[peer].pid,
            state == TRANSPORT_PEER_LOST
                ? "died; the communicator is finished"
                : "destroyed its communicator before this call was complete");
  return comm_finish(comm, COLL_ERROR_RANK_LOST, peer);
}

/* *gone: some task waits for a peer that is gone. With `condemn` that is the end. */
static coll_status_t mind_peers(comm_task_t tasks[], size_t count, bool condemn, bool *gone) {
  *gone = false;
  for (size_t i = 0; i < count; i++) {
    if (!is_under_way(&tasks[i])) continue;
    struct coll_comm *comm = tasks[i].call->comm;
    int peers[PLAN_LANES_MAX];
    int waited = comm_task_waits_for(&tasks[i], peers);
    for (int p = 0; p < waited; p++) {
      transport_t *route = comm->world.routes[peers[p]];
      transport_peer_state_t state = route->ops->peer_state(route, peers[p]);
      if (state == TRANSPORT_PEER_HERE) continue;
      *gone = true;
      if (condemn) return say_gone(comm, peers[p], state);
    }
  }
  return COLL_OK;
}

static coll_status_t mind_aborts(comm_task_t tasks[], size_t count) {
  for (size_t i = 0; i < count; i++) {
    if (!is_under_way(&tasks[i])) continue;
    struct coll_comm *comm = tasks[i].call->comm;
    coll_status_t status = comm_failure(comm);
    if (status != COLL_OK) return comm_finish(comm, status, comm->rank);
  }
  return COLL_OK;
}

static coll_status_t sleep_once(comm_wait_t *wait, comm_task_t tasks[], size_t count) {
  bool alone;
  const comm_task_t *first = first_under_way(tasks, count, &alone);
  if (first == NULL) { /* all wait for their turns, which other threads hold */
    sched_yield();
    return COLL_OK;
  }
  if (!wait->armed) {
    wait->transport = first->call->comm->local;
    wait->transport->ops->arm(wait->transport);
    wait->armed = true;
    return COLL_OK;
  }
  wait->transport->ops->sleep(wait->transport, alone ? SLEEP_NS : SLEEP_MANY_NS);
  wait->transport->ops->disarm(wait->transport);
  wait->armed = false;
  COLL_TRY(mind_aborts(tasks, count));
  bool condemn = wait->condemned;
  return mind_peers(tasks, count, condemn, &wait->condemned);
}

/* Of the first task that is not done: the communicators of others are not ours to look at. */
static int spin_limit_of(const comm_task_t tasks[], size_t count) {
  size_t i = 0;
  while (i + 1 < count && tasks[i].state == COMM_TASK_DONE) i++;
  return tasks[i].call->comm->spin_limit;
}

coll_status_t comm_wait_a_little(comm_wait_t *wait, comm_task_t tasks[], size_t count) {
  int spin_limit = spin_limit_of(tasks, count);
  if (wait->looks < spin_limit) {
    wait->looks++;
    base_cpu_relax();
    return COLL_OK;
  }
  if (wait->looks < spin_limit + YIELD_LIMIT) {
    wait->looks++;
    sched_yield();
    return COLL_OK;
  }
  return sleep_once(wait, tasks, count);
}
