/*
 * A run is opened by storing its number in `open`, and closed, once all of its tasks are taken, by
 * storing 0. Workers announce themselves in `inside` before they look whether the run is still
 * open, and the caller leaves only when nobody is inside: so a worker that comes late finds a
 * closed door, and nobody waits for workers that sleep.
 */
#include "libtrain/ops/pool.h"

#include <assert.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/atomics.h"
#include "base/clock.h"
#include "base/memory.h"

#define SPIN_NS 50000 /* how long an idle worker looks before it sleeps */
#define LOOKS_PER_CLOCK 64
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
  unsigned last; /* number of the latest run, never 0 */

  /* The open run; written while nobody is inside. */
  train_task_t *run;
  void *context;
  int tasks;

  _Alignas(BASE_CACHE_LINE) atomic_uint open; /* the run's number, 0 for none */
  _Alignas(BASE_CACHE_LINE) atomic_int next;  /* the task to be taken next */
  _Alignas(BASE_CACHE_LINE) atomic_int inside;
  _Alignas(BASE_CACHE_LINE) atomic_int sleepers;
  pthread_mutex_t mutex;
  pthread_cond_t opened;
  atomic_bool ending;
};

static void work(train_pool_t *pool, int thread) {
  for (int task; (task = atomic_fetch_add(&pool->next, 1)) < pool->tasks;) {
    pool->run(pool->context, task, thread);
  }
}

static bool has_news(train_pool_t *pool, unsigned seen) {
  unsigned open = atomic_load(&pool->open);
  return (open != 0 && open != seen) || atomic_load(&pool->ending);
}

static void sleep_until_news(train_pool_t *pool, unsigned seen) {
  pthread_mutex_lock(&pool->mutex);
  atomic_fetch_add(&pool->sleepers, 1);
  while (!has_news(pool, seen)) pthread_cond_wait(&pool->opened, &pool->mutex);
  atomic_fetch_sub(&pool->sleepers, 1);
  pthread_mutex_unlock(&pool->mutex);
}

static void wait_for_news(train_pool_t *pool, unsigned seen) {
  uint64_t start_ns = base_clock_now_ns();
  while (base_clock_now_ns() - start_ns < SPIN_NS) {
    for (int i = 0; i < LOOKS_PER_CLOCK; i++) {
      if (has_news(pool, seen)) return;
      base_cpu_relax();
    }
  }
  sleep_until_news(pool, seen);
}

static void *worker_body(void *argument) {
  const worker_t *worker = argument;
  train_pool_t *pool = worker->pool;
  unsigned seen = 0;
  for (;;) {
    wait_for_news(pool, seen);
    if (atomic_load(&pool->ending)) return NULL;
    atomic_fetch_add(&pool->inside, 1);
    unsigned open = atomic_load(&pool->open);
    if (open != 0 && open != seen) {
      seen = open;
      work(pool, worker->index);
    }
    atomic_fetch_sub(&pool->inside, 1);
  }
}

static void wake_all(train_pool_t *pool) {
  if (atomic_load(&pool->sleepers) == 0) return;
  pthread_mutex_lock(&pool->mutex);
  pthread_cond_broadcast(&pool->opened);
  pthread_mutex_unlock(&pool->mutex);
}

coll_status_t train_pool_create(int threads, train_pool_t **pool) {
  assert(threads >= 1);
  void *memory = aligned_alloc(BASE_CACHE_LINE, sizeof(train_pool_t));
  if (memory == NULL) return base_fail(COLL_ERROR_MEMORY, "out of memory: a pool of threads");
  train_pool_t *created = memory;
  *created = (train_pool_t){.threads = threads};
  pthread_mutex_init(&created->mutex, NULL);
  pthread_cond_init(&created->opened, NULL);
  coll_status_t status =
      base_alloc((size_t)threads, sizeof(worker_t), "a pool of threads", &memory);
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
  atomic_store(&pool->ending, true);
  wake_all(pool);
  for (int i = 0; i < pool->started; i++) pthread_join(pool->workers[i].thread, NULL);
  pthread_cond_destroy(&pool->opened);
  pthread_mutex_destroy(&pool->mutex);
  free(pool->workers);
  free(pool);
}

int train_pool_threads(const train_pool_t *pool) {
  return pool != NULL ? pool->threads : 1;
}

static void wait_until_all_left(train_pool_t *pool) {
  for (int looks = 0; atomic_load(&pool->inside) != 0; looks++) {
    if (looks < SPINS_BEFORE_YIELD) {
      base_cpu_relax();
    } else {
      sched_yield();
    }
  }
}

void train_pool_run(train_pool_t *pool, int tasks, train_task_t *run, void *context) {
  if (pool == NULL || pool->started == 0 || tasks <= 1) {
    for (int task = 0; task < tasks; task++) run(context, task, 0);
    return;
  }
  pool->run = run;
  pool->context = context;
  pool->tasks = tasks;
  atomic_store(&pool->next, 0);
  pool->last = pool->last + 1 == 0 ? 1 : pool->last + 1;
  atomic_store(&pool->open, pool->last);
  wake_all(pool);
  work(pool, 0);
  atomic_store(&pool->open, 0);
  wait_until_all_left(pool);
}
