/*
 * Tickets. The holder with its own ticket t runs the calls of tickets t + 1 to `last_ticket`. Those
 * that are complete return at once, so the tickets are served out of order. When the holder leaves,
 * `count` calls being left, they get the last `count` of these tickets, in their order, and the
 * first of them is served. A thread may still compare its old ticket then: it takes the lock only
 * if nobody runs its calls.
 */
#include "run/combine.h"

#include "comm/process.h"

#define MANY_THREADS_NS UINT64_C(30000000000) /* if hangs are not reported */

enum {
  PUBLISHED, /* nobody runs the calls */
  COMBINED,  /* the holder of the lock runs them */
  HOLDING,   /* their thread holds the lock */
  COMPLETE
};

struct comm_publication {
  comm_combinable_t *calls;
  struct comm_publication *next;
  /* Written by the thread of the calls from PUBLISHED to HOLDING, otherwise by the holder of the
   * lock, whose last access to this memory is that store, unless it is COMBINED. */
  _Atomic int state;
};

/* Its address identifies the thread. */
static _Thread_local char thread __attribute__((tls_model("initial-exec")));

static void note_thread(comm_combine_t *combine) {
  const void *first = atomic_load_explicit(&combine->thread, memory_order_relaxed);
  if (first == &thread) return;
  if (first == NULL &&
      atomic_compare_exchange_strong_explicit(&combine->thread, &first, &thread,
                                              memory_order_relaxed, memory_order_relaxed)) {
    return;
  }
  if (!atomic_load_explicit(&combine->by_threads, memory_order_relaxed)) {
    atomic_store_explicit(&combine->by_threads, true, memory_order_relaxed);
  }
}

/* ---- threads that wait
 * --------------------------------------------------------------------------*/

static void begin(struct coll_comm *comm, uint64_t ticket) {
  comm->combine.last_ticket = ticket;
  comm->combine.is_holding = true;
}

static void publish(comm_combine_t *combine, comm_publication_t *own) {
  comm_publication_t *head = atomic_load_explicit(&combine->arrivals, memory_order_relaxed);
  do {
    own->next = head;
    /* release: the holder sees the calls */
  } while (!atomic_compare_exchange_weak_explicit(&combine->arrivals, &head, own,
                                                  memory_order_release, memory_order_relaxed));
}

/* Moves what has arrived to `waiting`, which is in the order of tickets. */
static void take_arrivals(comm_combine_t *combine) {
  /* acquire: the calls are visible */
  comm_publication_t *arrived =
      atomic_exchange_explicit(&combine->arrivals, NULL, memory_order_acquire);
  while (arrived != NULL) {
    comm_publication_t *one = arrived, **at = &combine->waiting;
    arrived = one->next;
    while (*at != NULL && (*at)->calls->ticket < one->calls->ticket) at = &(*at)->next;
    one->next = *at;
    *at = one;
  }
}

/* Its ticket is served, so it is the first of those that wait. */
static void withdraw(comm_combine_t *combine, const comm_publication_t *own) {
  take_arrivals(combine);
  combine->waiting = own->next;
}

/* Whether the ticket of calls that nobody runs is served. */
static bool is_served(struct coll_comm *comm, comm_publication_t *own, uint64_t ticket) {
  int state = PUBLISHED;
  return comm_lock_is_mine(comm, ticket) &&
         atomic_compare_exchange_strong_explicit(&own->state, &state, HOLDING, memory_order_relaxed,
                                                 memory_order_relaxed);
}

static void wait_for_turn(comm_combinable_t *calls, run_wait_t *wait, bool *complete) {
  struct coll_comm *comm = calls->first->call->comm;
  comm_publication_t own = {.calls = calls};
  const uint64_t ticket = calls->ticket; /* the holder may write the other */
  run_task_t waiting;                    /* the holder may run the others */
  run_task_init(&waiting, calls->first->call);
  publish(&comm->combine, &own);
  for (;;) {
    if (is_served(comm, &own, ticket)) {
      withdraw(&comm->combine, &own);
      begin(comm, ticket);
      break;
    }
    /* acquire: what the holder has written is visible */
    int state = atomic_load_explicit(&own.state, memory_order_acquire);
    *complete = state == COMPLETE;
    if (state == COMPLETE || state == HOLDING) break;
    (void)run_wait_step(wait, &waiting); /* a wait for a lock does not fail */
  }
  run_wait_reset(wait);
}

void run_combine_take(comm_combinable_t *calls, run_wait_t *wait, bool *complete) {
  struct coll_comm *comm = calls->first->call->comm;
  *complete = false;
  note_thread(&comm->combine);
  if (comm_lock_is_mine(comm, calls->ticket)) {
    begin(comm, calls->ticket);
  } else {
    wait_for_turn(calls, wait, complete);
  }
}

/* ---- the holder -----------------------------------------------------------------------------*/

static run_task_t *last_task(const comm_combine_t *combine, run_task_t *own_last) {
  const comm_publication_t *last = combine->combined;
  while (last != NULL && last->next != NULL) last = last->next;
  return last != NULL ? last->calls->last : own_last;
}

/* Takes over the calls of the tickets that follow. */
static void adopt(comm_combine_t *combine, run_task_t *own_last) {
  run_task_t *last = last_task(combine, own_last);
  comm_publication_t **end = &combine->combined;
  while (*end != NULL) end = &(*end)->next;
  take_arrivals(combine);
  while (combine->waiting != NULL && combine->waiting->calls->ticket == combine->last_ticket + 1) {
    comm_publication_t *one = combine->waiting;
    combine->waiting = one->next;
    combine->last_ticket++;
    one->next = NULL;
    *end = one;
    end = &one->next;
    run_task_link(last, one->calls->first);
    last = one->calls->last;
    /* relaxed: the thread goes on waiting */
    atomic_store_explicit(&one->state, COMBINED, memory_order_relaxed);
  }
}

static coll_status_t advance_task(run_task_t *task, bool *moved) {
  bool stepped = false;
  if (task->state == RUN_TASK_DONE) return COLL_OK;
  if (task->state == RUN_TASK_WAITING) {
    if (!run_task_may_start(task)) return COLL_OK;
    COLL_TRY(run_task_start(task));
    *moved = true;
  }
  COLL_TRY(run_task_advance(task, &stepped));
  *moved = *moved || stepped;
  return COLL_OK;
}

static coll_status_t advance(const comm_combinable_t *calls, bool *moved, bool *complete) {
  *complete = true;
  for (run_task_t *task = calls->first;; task = task->next) {
    COLL_TRY(advance_task(task, moved));
    *complete = *complete && task->state == RUN_TASK_DONE;
    if (task == calls->last) return COLL_OK;
  }
}

static void unlink_tasks(const comm_combinable_t *calls) {
  run_task_t *before = calls->first->previous, *after = calls->last->next;
  if (before != NULL) before->next = after;
  if (after != NULL) after->previous = before;
  calls->first->previous = NULL;
  calls->last->next = NULL;
}

coll_status_t run_combine_advance(run_task_t *own_last, run_wait_t *wait, bool *moved) {
  comm_combine_t *combine = &own_last->call->comm->combine;
  adopt(combine, own_last);
  for (comm_publication_t **at = &combine->combined; *at != NULL;) {
    comm_publication_t *one = *at;
    bool complete;
    COLL_TRY(advance(one->calls, moved, &complete));
    if (!complete) {
      at = &one->next;
      continue;
    }
    run_wait_reset(wait); /* it refers to the tasks */
    unlink_tasks(one->calls);
    *at = one->next;
    engine_world_end_loans(&own_last->call->comm->world);
    /* release: results are visible. The thread may return, and its memory be gone */
    atomic_store_explicit(&one->state, COMPLETE, memory_order_release);
  }
  return COLL_OK;
}

static void serve(struct coll_comm *comm, uint64_t ticket) {
  /* release: as comm_lock_release */
  atomic_store_explicit(&comm->order.now_serving, ticket, memory_order_release);
}

void run_combine_release(struct coll_comm *comm) {
  comm_combine_t *combine = &comm->combine;
  comm_publication_t *next = combine->combined;
  uint64_t ticket = combine->last_ticket + 1;
  if (next == NULL) {
    combine->is_holding = false;
    serve(comm, ticket);
    return;
  }
  for (const comm_publication_t *one = next; one != NULL; one = one->next) ticket--;
  uint64_t first = ticket;
  for (comm_publication_t *one = next; one != NULL; one = one->next) one->calls->ticket = ticket++;
  combine->combined = next->next;
  next->calls->first->previous = NULL;
  serve(comm, first);
  atomic_store_explicit(&next->state, HOLDING, memory_order_release);
}

/* ---- waits that other threads may end
 * -----------------------------------------------------------*/

void run_combine_note_maker(struct coll_comm *comm) {
  comm->combine.maker = &thread;
}

static bool is_used_by_several(const struct coll_comm *comm) {
  const comm_combine_t *combine = &comm->combine;
  const void *first = atomic_load_explicit(&combine->thread, memory_order_relaxed);
  return comm_is_used_by_threads(comm) || (combine->maker != NULL && combine->maker != first);
}

bool run_combine_may_be_ended(const struct coll_comm *comm, uint64_t waited_ns) {
  if (!comm->combine.is_holding) return false;
  if (is_used_by_several(comm)) return true;
  uint64_t limit_ns =
      comm->watched.limits.hang_ns > 0 ? comm->watched.limits.hang_ns : MANY_THREADS_NS;
  return waited_ns < limit_ns && comm_process_threads() != 1;
}
