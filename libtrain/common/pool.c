/*
 * A run starts when its number is stored in `current_run`. When all of its tasks are taken, the
 * caller stores 0 there. Workers increment `active_workers` before they check whether the run is
 * still current, and the caller returns only when the counter is 0. Therefore a late worker finds
 * no current run, and the caller never waits for sleeping workers.
 */
#include "libtrain/common/pool.h"

#include <assert.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/atomics.h"
#include "base/clock.h"

#define SPIN_NS 50000 /* how long an idle worker polls before it sleeps */
#define POLLS_PER_CLOCK 64
#define SPINS_BEFORE_YIELD 2000

typedef struct worker {
  train_pool_t *pool;
  pthread_t thread;
  int index; /* from 1; 0 is the caller */
} worker_t;

struct train_pool {
  int threads;
  worker_t *workers; /* [threads - 1] */
  int started;
  unsigned last_run; /* number of the latest run, never 0 */

  /* The current run; written only while no worker is active. */
  train_task_t *body;
  void *context;
  int tasks;

  _Alignas(BASE_CACHE_LINE) atomic_uint current_run; /* its number; 0 for none */
  _Alignas(BASE_CACHE_LINE) atomic_int next;         /* index of the next task */
  _Alignas(BASE_CACHE_LINE) atomic_int active_workers;
  _Alignas(BASE_CACHE_LINE) atomic_int sleepers;
  pthread_mutex_t mutex;
  pthread_cond_t run_started;
  atomic_bool stopping;
};

static void run_tasks(train_pool_t *pool, int thread) {
  for (int task; (task = atomic_fetch_add(&pool->next, 1)) < pool->tasks;) {
    pool->body(pool->context, task, thread);
  }
}

static bool has_new_run(train_pool_t *pool, unsigned last_seen) {
  unsigned current_run = atomic_load(&pool->current_run);
  return (current_run != 0 && current_run != last_seen) || atomic_load(&pool->stopping);
}

static void sleep_until_new_run(train_pool_t *pool, unsigned last_seen) {
  pthread_mutex_lock(&pool->mutex);
  atomic_fetch_add(&pool->sleepers, 1);
  while (!has_new_run(pool, last_seen)) pthread_cond_wait(&pool->run_started, &pool->mutex);
  atomic_fetch_sub(&pool->sleepers, 1);
  pthread_mutex_unlock(&pool->mutex);
}

static void wait_for_new_run(train_pool_t *pool, unsigned last_seen) {
  uint64_t start_ns = base_clock_now_ns();
  while (base_clock_now_ns() - start_ns < SPIN_NS) {
    for (int i = 0; i < POLLS_PER_CLOCK; i++) {
      if (has_new_run(pool, last_seen)) return;
      base_cpu_relax();
    }
  }
  sleep_until_new_run(pool, last_seen);
}

static void *worker_body(void *argument) {
  const worker_t *worker = argument;
  train_pool_t *pool = worker->pool;
  unsigned last_seen = 0;
  for (;;) {
    wait_for_new_run(pool, last_seen);
    if (atomic_load(&pool->stopping)) return NULL;
    atomic_fetch_add(&pool->active_workers, 1);
    unsigned current_run = atomic_load(&pool->current_run);
    if (current_run != 0 && current_run != last_seen) {
      last_seen = current_run;
      run_tasks(pool, worker->index);
    }
    atomic_fetch_sub(&pool->active_workers, 1);
  }
}

static void wake_all(train_pool_t *pool) {
  if (atomic_load(&pool->sleepers) == 0) return;
  pthread_mutex_lock(&pool->mutex);
  pthread_cond_broadcast(&pool->run_started);
  pthread_mutex_unlock(&pool->mutex);
}

coll_status_t train_pool_create(int threads, train_pool_t **pool) {
  assert(threads >= 1);
  void *memory = aligned_alloc(BASE_CACHE_LINE, sizeof(train_pool_t));
  if (memory == NULL) return base_fail(COLL_ERROR_MEMORY, "out of memory for the thread pool");
  train_pool_t *created = memory;
  *created = (train_pool_t){.threads = threads};
  pthread_mutex_init(&created->mutex, NULL);
  pthread_cond_init(&created->run_started, NULL);
  coll_status_t status = base_alloc((size_t)threads, sizeof(worker_t), "the thread pool", &memory);
  if (status != COLL_OK) goto failed;
  created->workers = memory;
  for (int i = 0; i + 1 < threads; i++) {
    worker_t *worker = &created->workers[i];
    *worker = (worker_t){.pool = created, .index = i + 1};
    if (pthread_create(&worker->thread, NULL, worker_body, worker) != 0) {
      status = base_fail(COLL_ERROR_SYSTEM, "cannot start thread %d of %d: lower --threads", i + 2,
                         threads);
      goto failed;
    }
    created->started++;
  }
  *pool = created;
  return COLL_OK;
failed:
  train_pool_destroy(created);
  return status;
}

void train_pool_destroy(train_pool_t *pool) {
  if (pool == NULL) return;
  atomic_store(&pool->stopping, true);
  wake_all(pool);
  for (int i = 0; i < pool->started; i++) pthread_join(pool->workers[i].thread, NULL);
  pthread_cond_destroy(&pool->run_started);
  pthread_mutex_destroy(&pool->mutex);
  free(pool->workers);
  free(pool);
}

int train_pool_threads(const train_pool_t *pool) {
  return pool != NULL ? pool->threads : 1;
}

static void wait_until_workers_are_idle(train_pool_t *pool) {
  for (int polls = 0; atomic_load(&pool->active_workers) != 0; polls++) {
    if (polls < SPINS_BEFORE_YIELD) {
      base_cpu_relax();
    } else {
      sched_yield();
    }
  }
}

void train_pool_run(train_pool_t *pool, int tasks, train_task_t *body, void *context) {
  if (pool == NULL || pool->started == 0 || tasks <= 1) {
    for (int task = 0; task < tasks; task++) body(context, task, 0);
    return;
  }
  pool->body = body;
  pool->context = context;
  pool->tasks = tasks;
  atomic_store(&pool->next, 0);
  pool->last_run = pool->last_run + 1 == 0 ? 1 : pool->last_run + 1;
  atomic_store(&pool->current_run, pool->last_run);
  wake_all(pool);
  run_tasks(pool, 0);
  atomic_store(&pool->current_run, 0);
  wait_until_workers_are_idle(pool);
}
