/*
 * The order matters twice. Sleeping: arm, look once more, sleep; else news that came in between
 * would be slept through. Dying: what a peer sent before it died still counts, so a peer is only
 * given up when one more look after its death has moved nothing.
 */
#include "comm/wait.h"

#include "base/atomics.h"
#include "base/clock.h"
#include "base/names.h"
#include "comm/yield.h"
#include "engine/tag.h"

#define BACKGROUND_LOOKS 32 /* some 10 µs */
#define YIELD_LIMIT 400
/* Some 10 µs in all, where no neighbour has use for the core. No more, as the kernel gives the core
 * back at once to one that has yielded less often than its neighbours, until it has made up. */
#define PATIENCE_LOOKS 100
#define SOON_LOOKS 40 /* some 2 µs: what it takes to turn to another rank and back */
#define LED_LOOKS 200 /* some 10 µs, by which those who lead may differ */
#define ASK_LOOKS 10  /* until neighbours are asked again */

#define YIELD_NS 1000000u     /* yields that take longer give the core to strangers, not to peers */
#define TURN_SLEEP_NS 50000u  /* while other threads have the turn */
#define ROLL_CALL_SLEEPS 25   /* how often peers are minded that are not waited for directly */
#define SLEEP_NS 10000000u    /* how long a death may go unnoticed */
#define SLEEP_MANY_NS 200000u /* with several communicators, only one of which wakes us */

void comm_wait_end(comm_wait_t *wait) {
  if (wait->armed) wait->transport->ops->disarm(wait->transport);
  *wait = (comm_wait_t){.in_background = wait->in_background};
}

static bool is_under_way(const comm_task_t *task) {
  return task->state == COMM_TASK_MEETING || task->state == COMM_TASK_RUNNING;
}

/* *alone: no other communicator has tasks that are not done. */
static const comm_task_t *first_under_way(const comm_task_t tasks[], size_t count, bool *alone) {
  const comm_task_t *first = NULL;
  const struct coll_comm *comm = NULL;
  *alone = true;
  for (size_t i = 0; i < count; i++) {
    if (tasks[i].state == COMM_TASK_DONE) continue;
    if (comm == NULL) comm = tasks[i].call->comm;
    if (tasks[i].call->comm != comm) *alone = false;
    if (first == NULL && is_under_way(&tasks[i])) first = &tasks[i];
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

/* Gives up on a peer when it is found gone for the second time in a row. */
static coll_status_t suspect(comm_wait_t *wait, const comm_task_t *task, int peer,
                             transport_peer_state_t state) {
  if (wait->bereaved == task && wait->suspect == peer) {
    return say_gone(task->call->comm, peer, state);
  }
  wait->bereaved = task;
  wait->suspect = peer;
  /* Of several communicators only one was armed: what a transport holds back (shm/slip.h), and the
   * peer had sent, is found by the next look. */
  transport_t *local = task->call->comm->local;
  local->ops->arm(local);
  local->ops->disarm(local);
  return COLL_OK;
}

/* The ranks that the task waits for; *gone: one of them is no more. */
static coll_status_t mind_waited(comm_wait_t *wait, const comm_task_t *task, bool *gone) {
  struct coll_comm *comm = task->call->comm;
  int peers[PLAN_LANES_MAX];
  int waited = comm_task_waits_for(task, peers);
  for (int p = 0; p < waited && !*gone; p++) {
    transport_t *route = comm->world.routes[peers[p]];
    transport_peer_state_t state = route->ops->peer_state(route, peers[p]);
    *gone = state != TRANSPORT_PEER_HERE;
    if (*gone) COLL_TRY(suspect(wait, task, peers[p], state));
  }
  return COLL_OK;
}

/* All ranks of a collective. Whoever we wait for may live but wait, or compute, on its way to a
 * call that one which is gone will never join; and a post waits for all ranks to take it. A rank
 * that ended with this call behind it is missed by none: should it do so between the two looks at
 * it, the next roll call sees both. */
static coll_status_t call_roll(comm_wait_t *wait, const comm_task_t *task, bool *gone) {
  struct coll_comm *comm = task->call->comm;
  if (task->call->kind != COMM_COLLECTIVE) return COLL_OK;
  for (int peer = 0; peer < comm->size && !*gone; peer++) {
    transport_t *route = comm->world.routes[peer];
    if (route->ops->peer_completed(route, peer) > task->number) continue;
    transport_peer_state_t state = route->ops->peer_state(route, peer);
    *gone = state != TRANSPORT_PEER_HERE;
    if (*gone) COLL_TRY(suspect(wait, task, peer, state));
  }
  return COLL_OK;
}

/* A rank that waits says in which call, whatever plan carries it out, as ranks may have come to
 * different ones meanwhile; ranks that wait in calls which do not fit together may wait
 * for each other, and no message would ever tell. */
static coll_status_t compare_calls(const comm_task_t *task) {
  struct coll_comm *comm = task->call->comm;
  if (task->call->kind != COMM_COLLECTIVE) return COLL_OK;
  uint64_t own = engine_tag_of_call(comm_shape_tag(task->call->shape), task->number), tag;
  comm->local->ops->enter(comm->local, task->number, own);
  for (int peer = 0; peer < comm->size; peer++) {
    transport_t *route = comm->world.routes[peer];
    if (!route->ops->peer_entered(route, peer, task->number, &tag) || tag == own) continue;
    return comm_finish(comm, engine_tag_mismatch(comm->rank, own, peer, tag), comm->rank);
  }
  return COLL_OK;
}

static coll_status_t mind_peers(comm_wait_t *wait, comm_task_t tasks[], size_t count) {
  bool gone = false;
  bool roll = wait->bereaved != NULL || wait->sleeps % ROLL_CALL_SLEEPS == 0;
  for (size_t i = 0; i < count && !gone; i++) {
    if (!is_under_way(&tasks[i])) continue;
    COLL_TRY(mind_waited(wait, &tasks[i], &gone));
    if (!gone && roll) COLL_TRY(call_roll(wait, &tasks[i], &gone));
    if (!gone && roll) COLL_TRY(compare_calls(&tasks[i]));
  }
  if (!gone) wait->bereaved = NULL;
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
    base_clock_sleep_ns(TURN_SLEEP_NS);
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
  wait->sleeps++;
  COLL_TRY(mind_aborts(tasks, count));
  return mind_peers(wait, tasks, count);
}

/* Of the first task that is not done: the communicators of others are not ours to look at. */
static const struct coll_comm *comm_at_hand(const comm_task_t tasks[], size_t count) {
  size_t i = 0;
  while (i + 1 < count && tasks[i].state == COMM_TASK_DONE) i++;
  return tasks[i].call->comm;
}

/* Whether letting others have the core may still bring news sooner than sleeping does. A thread in
 * the background would yield to one that computes for a whole time slice; woken, it comes first. */
static bool may_yield(comm_wait_t *wait, int spin_limit) {
  if (wait->in_background || comm_yield_is_dear()) return false;
  if (wait->looks == spin_limit) return true; /* the first time: no need for a clock */
  uint64_t now_ns = base_clock_now_ns();
  if (wait->yielding_ns == 0) wait->yielding_ns = now_ns;
  return wait->looks < spin_limit + YIELD_LIMIT && now_ns - wait->yielding_ns < YIELD_NS;
}

/* Where a plan is led, neighbours have little use for the core before its leaders are done; where
 * all send to one another, they gain nothing by being ahead. Behind a root they do, and where ranks
 * stay until others have fetched what they have. */
static int soon_looks_of(const comm_task_t *task) {
  if (comm_task_is_led(task)) return LED_LOOKS;
  coll_collective_t collective = comm_traits_of(task->call->shape).collective;
  bool sends = task->prepared->plan->plan->reach == PLAN_REACH_OWN;
  return sends && !base_collective_is_rooted(collective) ? SOON_LOOKS : 0;
}

/* How often to look again before the core is given up to ranks that share it. */
static int patience_of(comm_wait_t *wait, const comm_task_t tasks[], size_t count) {
  bool alone;
  uint64_t place, missing;
  const comm_task_t *first = first_under_way(tasks, count, &alone);
  if (first == NULL || !alone || !comm_task_standstill(first, &place, &missing)) return 0;
  transport_t *local = first->call->comm->local;
  wait->asker = local;
  switch (local->ops->outlook(local, place, missing)) {
    case TRANSPORT_NEWS_HERE: break;
    case TRANSPORT_NEWS_SOON: return soon_looks_of(first);
    case TRANSPORT_NEWS_ELSEWHERE: return PATIENCE_LOOKS;
  }
  return 0;
}

coll_status_t comm_wait_a_little(comm_wait_t *wait, comm_task_t tasks[], size_t count) {
  const struct coll_comm *comm = comm_at_hand(tasks, count);
  int spin_limit = wait->in_background ? BACKGROUND_LOOKS : comm_yield_looks(comm);
  if (wait->looks < spin_limit) {
    wait->looks++;
    base_cpu_relax();
    return COLL_OK;
  }
  bool again = wait->patience_most > 0 && wait->patience % ASK_LOOKS == 0;
  if (comm->spin_limit == 0 && (!wait->asked || again)) {
    wait->asked = true;
    wait->patience_most = patience_of(wait, tasks, count);
  }
  if (wait->patience < wait->patience_most) {
    wait->patience++;
    base_cpu_relax();
    return COLL_OK;
  }
  if (may_yield(wait, spin_limit)) {
    wait->looks++;
    wait->asked = false;
    comm_yield(comm, wait->asker);
    return COLL_OK;
  }
  return sleep_once(wait, tasks, count);
}
