/*
 * A process can make no call while each of its threads waits in this library or is an idle stream
 * worker. Any other thread might make a call, so a process that has such threads publishes nothing.
 * A thread that stops waiting withdraws the published waits before it does anything else. A thread
 * that calls a progress callback may make calls of other communicators there, so its process
 * publishes nothing either.
 */
#include "watch/cross_wait.h"

#include <pthread.h>
#include <stdatomic.h>

#include "base/fork.h"
#include "base/ranks.h"
#include "comm/comm.h"
#include "comm/process.h"

#define POLLS_OF_GRACE_PERIOD 2
#define PIDS_MAX 256 /* processes waited for; a process that waits for more publishes nothing */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
/* Guarded by lock. */
static int waiting_threads;
static uint64_t changes; /* incremented whenever a thread begins or stops waiting */
static bool published;
/* Grace periods (as of RCU): in each, every wait of the process has polled all of its inputs, begin
 * to end, and found nothing. One is over at the first publication at which each wait has counted 2
 * polls since it began, of which the second is a whole one. */
static uint64_t grace_periods;
static uint64_t grace_changes; /* the state of the waits in the present one */
/* Waits of this thread: more than one if a progress callback makes calls. */
static _Thread_local int own_waits;
/* Written by any thread that holds the lock of the worker's stream. */
static _Atomic int idle_workers;

/* The other threads are the parent's. */
static void forget(void) {
  waiting_threads = own_waits > 0;
  published = false;
  atomic_store_explicit(&idle_workers, 0, memory_order_relaxed);
}
BASE_FORK_PART(&lock, forget);

/* The waits of all threads of the process. */
typedef struct waits {
  int pids[PIDS_MAX];
  int pid_count;
  bool known;  /* pids lists all processes waited for */
  bool polled; /* each wait has polled often enough in the present grace period */
  uint64_t changes;
  flight_standstill_t first; /* one of the waits, for messages */
} waits_t;

static void add_pid(waits_t *waits, int pid) {
  for (int i = 0; i < waits->pid_count; i++) {
    if (waits->pids[i] == pid) return;
  }
  if (waits->pid_count == PIDS_MAX) {
    waits->known = false;
  } else {
    waits->pids[waits->pid_count++] = pid;
  }
}

static bool waits_for_pid(const waits_t *waits, int pid) {
  for (int i = 0; i < waits->pid_count; i++) {
    if (waits->pids[i] == pid) return true;
  }
  return false;
}

static bool add_waits(struct coll_comm *comm, void *context) {
  waits_t *waits = context;
  flight_standstill_t wait;
  const flight_recorder_t *own = comm->local->flight;
  waits->changes += atomic_load_explicit(&own->wait.changes, memory_order_acquire);
  if (!flight_wait_read(own, &wait)) return true;
  if (waits->pid_count == 0) waits->first = wait;
  waits->polled = waits->polled && wait.polls >= comm->watched.grace_polls + POLLS_OF_GRACE_PERIOD;
  bool calls_back = atomic_load_explicit(&comm->progress.is_set, memory_order_relaxed);
  waits->known = waits->known && comm->one_pid_space && !calls_back;
  for (int peer = 0; peer < comm->size; peer++) {
    if (flight_waits_for(own, peer)) add_pid(waits, (int)comm->peers[peer].pid);
  }
  return true;
}

static bool begin_grace_period_of(struct coll_comm *comm, void *context) {
  flight_standstill_t wait;
  (void)context;
  comm->watched.grace_polls = flight_wait_read(comm->local->flight, &wait) ? wait.polls : 0;
  return true;
}

/* Ends the grace period if it is over, and begins one if waits have changed. */
static void count_grace_periods(const waits_t *waits) {
  bool same = waits->changes == grace_changes;
  if (same && !waits->polled) return;
  grace_periods += same;
  grace_changes = waits->changes;
  comm_process_each(begin_grace_period_of, NULL);
}

/* Adds the ranks of `comm` that belong to the processes waited for. False if one of these processes
 * has no rank in `comm`. */
static bool find_ranks(const struct coll_comm *comm, const waits_t *waits, base_ranks_t *ranks) {
  int found = 0;
  for (int peer = 0; peer < comm->size; peer++) {
    int pid = (int)comm->peers[peer].pid;
    if (!waits_for_pid(waits, pid)) continue;
    base_ranks_add(ranks, peer);
    found += comm->peers[peer].is_first;
  }
  return found == waits->pid_count;
}

static bool publish_on(struct coll_comm *comm, void *context) {
  const waits_t *waits = context;
  uint64_t words[FLIGHT_RANKS_MAX / 64] = {0};
  base_ranks_t ranks = {.size = comm->size, .words = words};
  flight_recorder_t *own = comm->local->flight;
  flight_standstill_t wait = waits->first;
  wait.peers = words;
  wait.words = base_ranks_words(comm->size);
  wait.polls = grace_periods;
  wait.collectives = waits->changes;
  if (!waits->known || !comm->one_pid_space || !find_ranks(comm, waits, &ranks)) {
    flight_standstill_end(&own->cross_wait);
  } else {
    flight_standstill_publish(&own->cross_wait, &wait);
  }
  return true;
}

static bool withdraw_from(struct coll_comm *comm, void *context) {
  (void)context;
  flight_standstill_end(&comm->local->flight->cross_wait);
  return true;
}

static void withdraw(void) {
  changes++;
  if (published) comm_process_each(withdraw_from, NULL);
  published = false;
}

void watch_cross_wait_begin(void) {
  pthread_mutex_lock(&lock);
  waiting_threads += own_waits++ == 0;
  changes++;
  pthread_mutex_unlock(&lock);
}

void watch_cross_wait_end(void) {
  pthread_mutex_lock(&lock);
  waiting_threads -= --own_waits == 0;
  withdraw();
  pthread_mutex_unlock(&lock);
}

void watch_cross_wait_publish(void) {
  waits_t waits = {.known = true, .polled = true};
  pthread_mutex_lock(&lock);
  int idle = atomic_load_explicit(&idle_workers, memory_order_relaxed);
  if (waiting_threads + idle == comm_process_threads()) {
    comm_process_each(add_waits, &waits);
    waits.changes += changes;
    count_grace_periods(&waits);
    comm_process_each(publish_on, &waits);
    published = true;
  } else {
    withdraw();
  }
  pthread_mutex_unlock(&lock);
}

void watch_cross_wait_idle_begin(void) {
  atomic_fetch_add_explicit(&idle_workers, 1, memory_order_relaxed);
}

/* Called by the thread that gives the worker a job. That thread does not wait. */
void watch_cross_wait_idle_end(void) {
  atomic_fetch_sub_explicit(&idle_workers, 1, memory_order_relaxed);
}
