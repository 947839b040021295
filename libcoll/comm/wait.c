/* The order matters: arm, look once more, sleep; else news that came in between would be slept
 * through. */
#include "comm/wait.h"

#include "base/atomics.h"
#include "base/clock.h"
#include "base/names.h"
#include "comm/watch.h"
#include "comm/yield.h"

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
#define WATCH_MANY_SLEEPS 32  /* with several communicators, how many sleeps between two watches */
#define SLEEP_NS 10000000u    /* how long a death may go unnoticed */
#define SLEEP_MANY_NS 200000u /* with several communicators, only one of which wakes us */

void comm_wait_end(comm_wait_t *wait) {
  if (wait->armed) wait->transport->ops->disarm(wait->transport);
  if (wait->watched != NULL) comm_watch_end(wait);
  *wait = (comm_wait_t){.in_background = wait->in_background};
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
    if (first == NULL && comm_task_is_under_way(&tasks[i])) first = &tasks[i];
  }
  return first;
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
  if (wait->sleeps == 0) COLL_TRY(comm_watch(wait, tasks, count));
  wait->transport->ops->sleep(wait->transport, alone ? SLEEP_NS : SLEEP_MANY_NS);
  wait->transport->ops->disarm(wait->transport);
  wait->armed = false;
  wait->sleeps++;
  if (!alone && wait->sleeps % WATCH_MANY_SLEEPS != 0) return COLL_OK;
  return comm_watch(wait, tasks, count);
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
  if (wait->in_background || comm_yield_is_costly()) return false;
  if (wait->looks == spin_limit) return true; /* the first time: no need for a clock */
  uint64_t now_ns = base_clock_now_ns();
  if (wait->yielding_ns == 0) wait->yielding_ns = now_ns;
  return wait->looks < spin_limit + YIELD_LIMIT && now_ns - wait->yielding_ns < YIELD_NS;
}

/* Where a plan is led, neighbours have little use for the core before its leaders are done; where
 * all send to one another, they gain nothing by being ahead. Behind a root they do, and where ranks
 * stay until others have fetched what they have. */
static int soon_looks_of(const comm_task_t *task) {
  if (comm_task_has_executor(task)) return LED_LOOKS;
  coll_collective_t collective = comm_traits_of(task->call->shape).collective;
  bool sends = task->entry->plan->plan->reach == PLAN_REACH_OWN;
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
  switch (local->ops->yield_hint(local, place, missing)) {
    case TRANSPORT_YIELD_HELPS: break;
    case TRANSPORT_YIELD_LATER: return soon_looks_of(first);
    case TRANSPORT_YIELD_USELESS: return PATIENCE_LOOKS;
  }
  return 0;
}

coll_status_t comm_wait_step(comm_wait_t *wait, comm_task_t tasks[], size_t count) {
  const struct coll_comm *comm = comm_at_hand(tasks, count);
  int spin_limit = wait->in_background ? BACKGROUND_LOOKS : comm_yield_polls(comm);
  if (wait->looks < spin_limit) {
    wait->looks++;
    base_cpu_relax();
    return COLL_OK;
  }
  bool again = wait->patience_max > 0 && wait->patience % ASK_LOOKS == 0;
  if (comm->spin_limit == 0 && (!wait->asked || again)) {
    wait->asked = true;
    wait->patience_max = patience_of(wait, tasks, count);
  }
  if (wait->patience < wait->patience_max) {
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
