/* Every task runs exactly once, on different threads, also if workers sleep or start late. */
#include <criterion/criterion.h>
#include <stdatomic.h>

#include "base/clock.h"
#include "base/status.h"
#include "libtrain/common/pool.h"

#define TASKS 64
#define THREADS_MAX 5

typedef struct count {
  atomic_int runs[TASKS];
  atomic_int busy[THREADS_MAX]; /* number of tasks running on the thread; must not exceed 1 */
  atomic_bool overlapped, misnumbered;
  int threads;
  int slow_task; /* -1 for none */
} count_t;

static void count_task(void *context, int task, int thread) {
  count_t *count = context;
  if (thread < 0 || thread >= count->threads) {
    atomic_store(&count->misnumbered, true);
    return;
  }
  if (atomic_fetch_add(&count->busy[thread], 1) != 0) atomic_store(&count->overlapped, true);
  if (task == count->slow_task) base_clock_sleep_ns(1000000);
  atomic_fetch_add(&count->runs[task], 1);
  atomic_fetch_sub(&count->busy[thread], 1);
}

/* Runs tasks and checks that each ran once before the run returned. */
static void run_and_check(train_pool_t *pool, int tasks, int slow_task) {
  count_t count = {.threads = train_pool_threads(pool), .slow_task = slow_task};
  train_pool_run(pool, tasks, count_task, &count);
  for (int i = 0; i < TASKS; i++) {
    cr_assert_eq(atomic_load(&count.runs[i]), i < tasks ? 1 : 0, "task %d of %d ran %d times", i,
                 tasks, atomic_load(&count.runs[i]));
  }
  cr_assert(!atomic_load(&count.overlapped));
  cr_assert(!atomic_load(&count.misnumbered));
}

Test(pool, runs_every_task_once) {
  for (int threads = 1; threads <= THREADS_MAX; threads++) {
    train_pool_t *pool;
    cr_assert_eq(train_pool_create(threads, &pool), COLL_OK, "%s", base_last_error());
    cr_assert_eq(train_pool_threads(pool), threads);
    for (int run = 0; run < 500; run++) run_and_check(pool, run % (TASKS + 1), -1);
    train_pool_destroy(pool);
  }
}

Test(pool, waits_for_the_slowest_task) {
  train_pool_t *pool;
  cr_assert_eq(train_pool_create(3, &pool), COLL_OK);
  for (int run = 0; run < 20; run++) run_and_check(pool, 1 + run, run / 2);
  train_pool_destroy(pool);
}

Test(pool, wakes_sleeping_workers) {
  train_pool_t *pool;
  cr_assert_eq(train_pool_create(3, &pool), COLL_OK);
  for (int run = 0; run < 20; run++) {
    base_clock_sleep_ns(2000000);
    run_and_check(pool, TASKS, 5);
  }
  train_pool_destroy(pool);
}

/* Two tasks that wait for each other to start, which requires two threads. */
static void rendezvous_task(void *context, int task, int thread) {
  atomic_int *met = context;
  (void)task, (void)thread;
  atomic_fetch_add(met, 1);
  while (atomic_load(met) < 2) base_clock_sleep_ns(1000);
}

Test(pool, tasks_run_concurrently, .timeout = 20) {
  train_pool_t *pool;
  cr_assert_eq(train_pool_create(2, &pool), COLL_OK);
  for (int run = 0; run < 50; run++) {
    atomic_int met = 0;
    train_pool_run(pool, 2, rendezvous_task, &met);
  }
  train_pool_destroy(pool);
}

Test(pool, null_pool_runs_in_the_caller) {
  run_and_check(NULL, TASKS, -1);
  cr_assert_eq(train_pool_threads(NULL), 1);
}
