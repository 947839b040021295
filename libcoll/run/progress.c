/* A thread owns the fields of a callback while it runs or changes it. */
#include "run/progress.h"

#include "base/clock.h"

/* With the nap that may follow a look at the clock, and what the kernel adds to it (wait.c), less
 * than the 100 µs of coll.h. */
#define INTERVAL_NS 40000u
#define OWNED_SLEEP_NS 50000u /* while another thread owns the fields */

_Atomic int run_progress_count;
_Thread_local const run_progress_wait_t *run_progress_waits;

static void forget(void) {
  atomic_store_explicit(&run_progress_count, 0, memory_order_relaxed);
}
BASE_FORK_PART(NULL, forget);

/* Its address identifies the thread. */
static _Thread_local char thread;

bool run_progress_wanted_by(const run_task_t *tasks) {
  for (const run_task_t *task = tasks; task != NULL; task = task->next) {
    if (task->state == RUN_TASK_DONE) continue;
    const comm_progress_t *progress = &task->call->comm->progress;
    if (atomic_load_explicit(&progress->is_set, memory_order_relaxed)) return true;
  }
  return false;
}

bool run_progress_waits_on(const struct coll_comm *comm) {
  for (const run_progress_wait_t *wait = run_progress_waits; wait != NULL; wait = wait->outer) {
    for (const run_task_t *task = wait->tasks; task != NULL; task = task->next) {
      if (task->state != RUN_TASK_DONE && task->call->comm == comm) return true;
    }
  }
  return false;
}

/* acquire, and release below: the fields are those that the last owner left */
static bool own(comm_progress_t *progress) {
  const void *none = NULL;
  return atomic_compare_exchange_strong_explicit(&progress->owner, &none, &thread,
                                                 memory_order_acquire, memory_order_relaxed);
}

static void disown(comm_progress_t *progress) {
  atomic_store_explicit(&progress->owner, NULL, memory_order_release);
}

static bool is_due(const comm_progress_t *progress) {
  return atomic_load_explicit(&progress->is_set, memory_order_relaxed) &&
         base_clock_now_ns() - atomic_load_explicit(&progress->called_ns, memory_order_relaxed) >=
             INTERVAL_NS;
}

/* Makes known whether there is a callback. After a callback that has removed itself only, because
 * it may still have made calls. */
static void make_known(struct coll_comm *comm) {
  comm_progress_t *progress = &comm->progress;
  bool was_set = atomic_load_explicit(&progress->is_set, memory_order_relaxed);
  bool is_set = progress->callback != NULL;
  if (is_set == was_set) return;
  atomic_store_explicit(&progress->is_set, is_set, memory_order_relaxed);
  atomic_store_explicit(&comm->local->flight->wait.calls_back, is_set, memory_order_relaxed);
  atomic_fetch_add_explicit(&run_progress_count, is_set ? 1 : -1, memory_order_relaxed);
}

void run_progress_call(const run_task_t *tasks) {
  const run_progress_wait_t wait = {run_progress_waits, tasks};
  for (const run_task_t *task = tasks; task != NULL; task = task->next) {
    if (task->state == RUN_TASK_DONE) continue; /* its communicator may be destroyed */
    struct coll_comm *comm = task->call->comm;
    comm_progress_t *progress = &comm->progress;
    if (!is_due(progress) || !own(progress)) continue;
    run_progress_waits = &wait;
    if (progress->callback != NULL) progress->callback(progress->context);
    run_progress_waits = wait.outer;
    make_known(comm);
    atomic_store_explicit(&progress->called_ns, base_clock_now_ns(), memory_order_relaxed);
    disown(progress);
  }
}

void run_progress_set(struct coll_comm *comm, void (*callback)(void *context), void *context) {
  comm_progress_t *progress = &comm->progress;
  bool inside = atomic_load_explicit(&progress->owner, memory_order_relaxed) == &thread;
  while (!inside && !own(progress)) base_clock_sleep_ns(OWNED_SLEEP_NS);
  progress->callback = callback;
  progress->context = context;
  if (inside) return;
  make_known(comm);
  disown(progress);
}
