/* Tasks of one communicator wait together: the first of them that is under way names the call. */
#include "run/waiting.h"

#include "base/clock.h"
#include "run/combine.h"
#include "watch/cross_wait.h"

/* Before the first sleep there is no time for an exact answer. */
static bool may_be_ended(const watch_t *watch, const struct coll_comm *comm) {
  if (watch->sleeps == 0) return comm->combine.is_holding;
  return run_combine_may_be_ended(comm, base_clock_now_ns() - watch->begin_ns);
}

static bool is_of(const run_task_t *task, const struct coll_comm *comm) {
  return task->call->comm == comm && run_task_is_under_way(task);
}

/* first: the first task of its communicator that is under way. */
static watch_waiting_t waiting_of(const watch_t *watch, run_task_t *first) {
  struct coll_comm *comm = first->call->comm;
  watch_waiting_t waiting = {.comm = comm,
                             .call = first->id,
                             .number = first->number,
                             .history = comm->history,
                             .may_be_ended = may_be_ended(watch, comm)};
  if (first->call->kind == RUN_COLLECTIVE) waiting.history = first->engine_call->history;
  base_ranks_clear(&comm->watched.waits_for);
  for (const run_task_t *task = first; task != NULL; task = task->next) {
    if (!is_of(task, comm)) continue;
    run_task_waits_for(task, &comm->watched.waits_for);
    if (task->call->kind != RUN_COLLECTIVE) continue;
    waiting.has_collective = true; /* there is at most one */
    waiting.collective = task->number;
  }
  first->published = true;
  return waiting;
}

/* Whether an earlier task is under way on the same communicator. */
static bool has_earlier(const run_task_t *task) {
  for (const run_task_t *earlier = task->previous; earlier != NULL; earlier = earlier->previous) {
    if (is_of(earlier, task->call->comm)) return true;
  }
  return false;
}

coll_status_t run_waits_check(run_waits_t *waits, run_task_t *tasks) {
  watch_t *watch = &waits->watch;
  bool lost = false;
  if (waits->tasks == NULL) watch_cross_wait_begin();
  waits->tasks = tasks;
  if (watch->begin_ns == 0) watch->begin_ns = base_clock_now_ns();
  for (run_task_t *task = tasks; task != NULL && !lost; task = task->next) {
    if (!run_task_is_under_way(task) || has_earlier(task)) continue;
    const watch_waiting_t waiting = waiting_of(watch, task);
    COLL_TRY(watch_check(watch, &waiting, &lost));
  }
  watch_turn(watch, lost);
  return COLL_OK;
}

void run_waits_end(run_waits_t *waits) {
  watch_cross_wait_end();
  for (run_task_t *task = waits->tasks; task != NULL; task = task->next) {
    if (!task->published) continue; /* its communicator may be destroyed */
    task->published = false;
    watch_withdraw(&waits->watch, task->call->comm);
  }
  waits->watch.shown_ns = 0;
  waits->tasks = NULL;
}
