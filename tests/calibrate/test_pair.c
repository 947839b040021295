/*
 * The timing pair: its threads run in lockstep, the slower one determines the time, and the
 * deadline ends it. And the time of a hop, which a pair of its own takes.
 */
#include <criterion/criterion.h>
#include <pthread.h>
#include <sched.h>

#include "base/clock.h"
#include "calibrate/pair.h"

#define SLOW_NS 2000000u

typedef struct worker {
  calibrate_thread_t thread;
  struct worker *other;
  calibrate_work_t *works[2];
  uint64_t ns[2];
  _Atomic int begun; /* number of calls of the work function */
  int ended;
  bool out_of_step;
} worker_t;

/* Neither thread begins a call before the other has ended its previous one. */
static void work_in_step(void *context, size_t size) {
  worker_t *worker = context;
  int own = ++worker->begun, theirs = worker->other->begun;
  (void)size;
  if (theirs < own - 1 || theirs > own) worker->out_of_step = true;
  worker->ended++;
}

/* Thread 1 sleeps, except the first time. */
static void work_long(void *context, size_t size) {
  worker_t *worker = context;
  worker->ended++;
  if (worker->thread.number == 1 && worker->ended > 1) base_clock_sleep_ns((uint32_t)size);
}

static void *measure(void *context) {
  worker_t *worker = context;
  calibrate_pair_time(&worker->thread, worker, worker->works, 2, SLOW_NS, 1, worker->ns);
  return NULL;
}

static void run(worker_t workers[2], calibrate_work_t *work, uint64_t deadline_ns) {
  static calibrate_pair_t pair;
  pthread_t threads[2];
  pair = (calibrate_pair_t){.deadline_ns = deadline_ns};
  for (int i = 0; i < 2; i++) {
    workers[i] = (worker_t){
        .thread = {.pair = &pair, .number = i}, .other = &workers[1 - i], .works = {work, work}};
  }
  for (int i = 0; i < 2; i++) pthread_create(&threads[i], NULL, measure, &workers[i]);
  for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
}

Test(calibrate_pair, works_in_step) {
  worker_t workers[2];
  run(workers, work_in_step, UINT64_MAX);
  for (int i = 0; i < 2; i++) {
    cr_assert(!workers[i].out_of_step, "thread %d", i);
    cr_assert_geq(workers[i].ended, 2 * (1 + 4), "one warm-up and at least four repetitions");
    cr_assert(workers[i].ns[0] > 0 && workers[i].ns[1] > 0);
  }
  cr_assert_eq(workers[0].ended, workers[1].ended);
}

Test(calibrate_pair, takes_as_long_as_the_slower_thread) {
  worker_t workers[2];
  run(workers, work_long, UINT64_MAX);
  for (int i = 0; i < 2; i++) cr_assert_geq(workers[i].ns[1], SLOW_NS, "thread %d", i);
}

Test(calibrate_pair, stops_after_the_deadline) {
  worker_t workers[2];
  run(workers, work_in_step, 1);
  for (int i = 0; i < 2; i++) {
    cr_assert_eq(workers[i].ended, 2, "no repetition after the deadline");
    cr_assert_eq(workers[i].ns[0], 0);
  }
}

Test(calibrate_pair, has_no_hop_of_cpus_that_are_not_there) {
  const int cpus[3][2] = {{0, 4095}, {-1, 0}, {1 << 30, 0}};
  for (int i = 0; i < 3; i++) cr_expect_eq(calibrate_pair_hop_ps(cpus[i]), 0);
}

/* Two threads on one CPU hand over nothing within the limit, or by a switch: no hop is so short. */
Test(calibrate_pair, has_the_hop_of_two_cpus) {
  cpu_set_t own;
  int cpus[2], found = 0;
  cr_assert_eq(sched_getaffinity(0, sizeof own, &own), 0);
  for (int cpu = 0; cpu < CPU_SETSIZE && found < 2; cpu++) {
    if (CPU_ISSET((size_t)cpu, &own)) cpus[found++] = cpu;
  }
  if (found < 2) return;
  for (int i = 0; i < 50; i++) {
    uint32_t ps = calibrate_pair_hop_ps(cpus);
    if (ps == 0) continue; /* they have other work */
    cr_expect(ps > 1000 && ps < 100000000, "a hop of %u ps", ps);
    return;
  }
}
