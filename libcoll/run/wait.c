/*
 * The order before a sleep matters: arm, poll once more, sleep. A message that arrives after that
 * poll wakes the thread; without arming first it would be missed.
 */
#include "run/wait.h"

#include "base/atomics.h"
#include "base/clock.h"
#include "base/names.h"
#include "run/progress.h"
#include "run/yield.h"

#define BACKGROUND_POLLS 32 /* about 10 µs */
#define YIELD_LIMIT 400
/* About 10 µs in total, if no rank on this core can use it. No more: if a thread has yielded less
 * often than the other ranks of its core, the kernel gives it the core back at once, until it has
 * made up for it. */
#define YIELD_USELESS_POLLS 100
#define YIELD_LATER_POLLS 40 /* about 2 µs: two context switches */
#define EXECUTOR_POLLS 200   /* about 10 µs: by how much the times of executor ranks may differ */
#define HINT_INTERVAL_POLLS 10 /* polls between two reads of the hint */
/* Polls take longer in some builds and on some machines. A peer must not take the time for that of
 * another program (yield.c). */
#define SPIN_LONGEST_NS 250000u
#define SPIN_INTERVAL_POLLS 16 /* polls between two reads of the clock */

#define YIELD_NS 1000000u    /* a longer yield gave the core to other programs, not to peers */
#define LOCK_SLEEP_NS 50000u /* while other threads hold the lock */
#define WATCH_MANY_SLEEPS 32 /* sleeps between two checks, with several communicators */
#define SLEEP_NS 10000000u   /* upper bound of the time until a death is detected */
#define SLEEP_CROWD 64       /* ranks per core for which it is twice as long, and so on */
/* With several communicators, of which one wakes this thread, or several threads. */
#define SLEEP_MANY_NS 200000u

/* With a progress callback a sleep consists of naps, between which the callback is called. The
 * kernel adds 50 µs to a nap. */
#define NAP_NS 5000u
#define NAP_LONGEST_NS 100000u

void run_wait_end(run_wait_t *wait) {
  if (wait->armed) wait->transport->ops->disarm(wait->transport);
  if (wait->waits.tasks != NULL) run_waits_end(&wait->waits);
  *wait = (run_wait_t){.in_background = wait->in_background};
}

/* *alone: all tasks that are not done belong to one communicator. */
static const run_task_t *first_under_way(const run_task_t *tasks, bool *alone) {
  const run_task_t *first = NULL;
  const struct coll_comm *comm = NULL;
  *alone = true;
  for (const run_task_t *task = tasks; task != NULL; task = task->next) {
    if (task->state == RUN_TASK_DONE) continue;
    if (comm == NULL) comm = task->call->comm;
    if (task->call->comm != comm) *alone = false;
    if (first == NULL && run_task_is_under_way(task)) first = task;
  }
  return first;
}

/* Of many ranks on a core, each wakes up less often: what all of them do then takes less than the
 * whole core. */
static uint64_t sleep_ns(const struct coll_comm *comm) {
  int cores = comm->cores > 0 ? comm->cores : 1;
  return SLEEP_NS * (uint64_t)(1 + comm->size / cores / SLEEP_CROWD);
}

/* Transports between hosts sleep for whole milliseconds. */
static void nap(transport_t *transport) {
  bool is_coarse = transport->delays;
  transport->ops->sleep(transport, is_coarse ? 0 : NAP_NS);
  if (is_coarse) base_clock_sleep_ns(NAP_NS);
}

/* Whether so many naps are less than a sleep. They end early if the communicator fails. */
static bool is_napping(int naps, uint64_t sleep_ns, struct coll_comm *comm) {
  return naps % (int)(sleep_ns / NAP_LONGEST_NS) != 0 && comm_is_usable(comm);
}

static coll_status_t sleep_once(run_wait_t *wait, run_task_t *tasks, bool naps) {
  bool alone;
  const run_task_t *first = first_under_way(tasks, &alone);
  if (first == NULL) { /* all tasks wait for locks that other threads hold */
    base_clock_sleep_ns(naps ? NAP_NS : LOCK_SLEEP_NS);
    return COLL_OK;
  }
  if (!wait->armed) {
    wait->transport = first->call->comm->local;
    wait->transport->ops->arm(wait->transport);
    wait->armed = true;
    return COLL_OK;
  }
  if (wait->waits.watch.sleeps == 0 && wait->naps == 0) {
    COLL_TRY(run_waits_check(&wait->waits, tasks));
  }
  if (comm_is_used_by_threads(first->call->comm)) alone = false; /* none of them wakes this one */
  uint64_t longest_ns = alone ? sleep_ns(first->call->comm) : SLEEP_MANY_NS;
  if (naps) {
    nap(wait->transport);
  } else {
    wait->transport->ops->sleep(wait->transport, longest_ns);
  }
  wait->transport->ops->disarm(wait->transport);
  wait->armed = false;
  if (naps && is_napping(++wait->naps, longest_ns, first->call->comm)) return COLL_OK;
  wait->waits.watch.sleeps++;
  if (!alone && wait->waits.watch.sleeps % WATCH_MANY_SLEEPS != 0) return COLL_OK;
  return run_waits_check(&wait->waits, tasks);
}

/* The communicator of the first task that is not done. Other communicators must not be accessed
 * without their locks. */
static const struct coll_comm *first_comm(const run_task_t *tasks) {
  while (tasks->next != NULL && tasks->state == RUN_TASK_DONE) tasks = tasks->next;
  return tasks->call->comm;
}

/* Whether a yield may bring progress sooner than a sleep. A background thread would yield a whole
 * time slice to the thread that computes; when it is woken from a sleep, it runs first. */
static bool may_yield(run_wait_t *wait, int spin_limit) {
  if (wait->in_background || run_yield_is_costly()) return false;
  if (wait->poll_count == spin_limit) return true; /* the first yield: no need to read the clock */
  uint64_t now_ns = base_clock_now_ns();
  if (wait->yielding_since_ns == 0) wait->yielding_since_ns = now_ns;
  return wait->poll_count < spin_limit + YIELD_LIMIT && now_ns - wait->yielding_since_ns < YIELD_NS;
}

/* Polls before a yield if the hint is YIELD_LATER. Other ranks can hardly use the core before the
 * executor ranks of a plan (algo.h) are done, and where all ranks send to one another they gain
 * nothing by being ahead. They do gain behind a root, and where ranks stay until others have read
 * their memory. */
static int yield_later_polls(const run_task_t *task) {
  if (run_task_has_executor(task)) return EXECUTOR_POLLS;
  coll_collective_t collective = comm_traits_of(task->call->shape).collective;
  bool sends = task->entry->plan->plan->reach == PLAN_REACH_OWN;
  return sends && !base_collective_is_rooted(collective) ? YIELD_LATER_POLLS : 0;
}

/* Polls before the core is yielded to other ranks on it, by the transport's hint. */
static int polls_by_hint(run_wait_t *wait, const run_task_t *tasks) {
  bool alone;
  uint64_t progress, missing;
  const run_task_t *first = first_under_way(tasks, &alone);
  if (first == NULL || !alone || !run_task_progress(first, &progress, &missing)) return 0;
  transport_t *local = first->call->comm->local;
  wait->hinted_transport = local;
  switch (local->ops->yield_hint(local, progress, missing)) {
    case TRANSPORT_YIELD_HELPS: break;
    case TRANSPORT_YIELD_LATER: return yield_later_polls(first);
    case TRANSPORT_YIELD_USELESS: return YIELD_USELESS_POLLS;
  }
  return 0;
}

/* The polls after one more; spin_limit if they have taken SPIN_LONGEST_NS. */
static int polls_after_one(run_wait_t *wait, int spin_limit) {
  int count = wait->poll_count + 1;
  if (count % SPIN_INTERVAL_POLLS != 0) return count;
  uint64_t now_ns = base_clock_now_ns();
  if (wait->spinning_since_ns == 0) wait->spinning_since_ns = now_ns;
  return now_ns - wait->spinning_since_ns < SPIN_LONGEST_NS ? count : spin_limit;
}

coll_status_t run_wait_step(run_wait_t *wait, run_task_t *tasks) {
  const struct coll_comm *comm = first_comm(tasks);
  bool calls_back = run_progress_is_wanted(tasks);
  wait->has_begun = true;
  if (calls_back && !wait->armed) run_progress_call(tasks);
  int spin_limit = wait->in_background ? BACKGROUND_POLLS : run_yield_polls(comm);
  if (wait->poll_count < spin_limit) {
    wait->poll_count = polls_after_one(wait, spin_limit);
    base_cpu_relax();
    return COLL_OK;
  }
  bool again = wait->hint_polls_max > 0 && wait->hint_polls % HINT_INTERVAL_POLLS == 0;
  if (comm->spin_limit == 0 && (!wait->hint_is_current || again)) {
    wait->hint_is_current = true;
    wait->hint_polls_max = polls_by_hint(wait, tasks);
  }
  if (wait->hint_polls < wait->hint_polls_max) {
    wait->hint_polls++;
    base_cpu_relax();
    return COLL_OK;
  }
  if (may_yield(wait, spin_limit)) {
    wait->poll_count++;
    wait->hint_is_current = false;
    run_yield(comm, wait->hinted_transport);
    return COLL_OK;
  }
  return sleep_once(wait, tasks, calls_back);
}
