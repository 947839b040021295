/*
 * The workers of streams sleep in run_join_wait on a condition variable. The thread that runs the
 * calls must progress other calls meanwhile, so it polls run_join_is_open.
 */
#include "run/join.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "comm/comm.h"
#include "watch/cross_wait.h"

struct run_join {
  _Atomic bool open; /* written with the lock held */
  pthread_mutex_t lock;
  pthread_cond_t ended_now;
  /* Guarded by the lock. */
  int missing;    /* streams that have not arrived */
  int references; /* streams that have not returned from run_join_wait, and the calls */
  int sleepers;   /* streams in run_join_wait that count as idle workers */
  bool ended;
  coll_status_t failure; /* the first one: of a stream, or of the calls */
  char failure_text[COMM_ERROR_BYTES];
};

coll_status_t run_join_create(int streams, run_join_t **join) {
  run_join_t *made = NULL;
  COLL_TRY(base_alloc(1, sizeof *made, "a join of streams", (void **)&made));
  pthread_mutex_init(&made->lock, NULL);
  pthread_cond_init(&made->ended_now, NULL);
  made->missing = streams;
  made->references = streams + 1;
  *join = made;
  return COLL_OK;
}

void run_join_free(run_join_t *join) {
  pthread_cond_destroy(&join->ended_now);
  pthread_mutex_destroy(&join->lock);
  free(join);
}

/* The caller holds the lock; it is released. */
static void drop_reference(run_join_t *join) {
  bool last = --join->references == 0;
  pthread_mutex_unlock(&join->lock);
  if (last) run_join_free(join);
}

/* The caller holds the lock. */
static void note_failure(run_join_t *join, coll_status_t status) {
  if (status == COLL_OK || join->failure != COLL_OK) return;
  join->failure = status;
  snprintf(join->failure_text, sizeof join->failure_text, "%s", base_last_error());
}

/* The caller holds the lock. */
static coll_status_t return_failure(const run_join_t *join) {
  return join->failure == COLL_OK ? COLL_OK : base_fail(join->failure, "%s", join->failure_text);
}

void run_join_arrive(run_join_t *join, coll_status_t status) {
  pthread_mutex_lock(&join->lock);
  note_failure(join, status);
  join->missing--;
  /* release: the results of the stream's earlier work are visible to the calls */
  if (join->missing == 0 || join->failure != COLL_OK) {
    atomic_store_explicit(&join->open, true, memory_order_release);
  }
  pthread_mutex_unlock(&join->lock);
}

bool run_join_is_open(run_join_t *join) {
  return atomic_load_explicit(&join->open, memory_order_acquire);
}

coll_status_t run_join_failure(run_join_t *join) {
  pthread_mutex_lock(&join->lock);
  coll_status_t status = return_failure(join);
  pthread_mutex_unlock(&join->lock);
  return status;
}

void run_join_end(run_join_t *join, coll_status_t status) {
  pthread_mutex_lock(&join->lock);
  note_failure(join, status);
  join->ended = true;
  for (; join->sleepers > 0; join->sleepers--) watch_cross_wait_idle_end();
  pthread_cond_broadcast(&join->ended_now);
  drop_reference(join);
}

coll_status_t run_join_wait(run_join_t *join) {
  pthread_mutex_lock(&join->lock);
  if (!join->ended) {
    join->sleepers++;
    watch_cross_wait_idle_begin();
  }
  while (!join->ended) pthread_cond_wait(&join->ended_now, &join->lock);
  coll_status_t status = return_failure(join);
  drop_reference(join);
  return status;
}
