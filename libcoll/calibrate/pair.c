/*
 * Thread 0 decides when there are enough repetitions, and whether the deadline has passed. It does
 * so before the last synchronization of a repetition, so that the other thread reads the decision
 * after it.
 */
#include "calibrate/pair.h"

#include <sched.h>
#include <string.h>

#include "base/atomics.h"
#include "base/clock.h"

#define REPEATS_MAX 40 /* short ones: even on a busy machine some find both cores free */
#define REPEATS_MIN 4
#define BUDGET_NS 2000000u /* per work, for the repetitions beyond REPEATS_MIN */
#define POLLS 20000        /* between two yields */

static void await_arrival(const calibrate_thread_t *thread, uint32_t count) {
  _Atomic uint32_t *theirs = &thread->pair->arrivals[1 - thread->number].count;
  int polls = 0;
  /* acquire: what the other thread wrote before it arrived is seen */
  while ((int32_t)(atomic_load_explicit(theirs, memory_order_acquire) - count) < 0) {
    base_cpu_relax();
    if (thread->shares_core || ++polls % POLLS == 0) sched_yield();
  }
}

static uint32_t own_arrivals(const calibrate_thread_t *thread) {
  return atomic_load_explicit(&thread->pair->arrivals[thread->number].count, memory_order_relaxed);
}

static uint32_t arrive(const calibrate_thread_t *thread) {
  uint32_t count = own_arrivals(thread) + 1;
  /* release: pairs with the acquire in await_arrival */
  atomic_store_explicit(&thread->pair->arrivals[thread->number].count, count, memory_order_release);
  return count;
}

void calibrate_pair_sync(const calibrate_thread_t *thread) {
  await_arrival(thread, arrive(thread));
}

void calibrate_pair_trip(const calibrate_thread_t *thread) {
  if (thread->number == 0) {
    calibrate_pair_sync(thread);
  } else {
    await_arrival(thread, own_arrivals(thread) + 1);
    arrive(thread);
  }
}

void calibrate_pair_time(const calibrate_thread_t *thread, void *context,
                         calibrate_work_t *const works[], int count, size_t size, int warmups,
                         uint64_t ns[]) {
  uint64_t shortest_ns[CALIBRATE_WORKS_MAX], first_ns = 0;
  calibrate_pair_t *pair = thread->pair;
  for (int i = 0; i < count; i++) {
    ns[i] = 0;
    shortest_ns[i] = UINT64_MAX;
  }
  for (int repeat = -warmups; !pair->is_late; repeat++) {
    for (int i = 0; i < count; i++) {
      calibrate_pair_sync(thread);
      uint64_t begin_ns = base_clock_now_ns();
      if (repeat <= 0 && i == 0) first_ns = begin_ns;
      works[i](context, size);
      if (thread->number == 0 && i == count - 1) {
        pair->enough =
            repeat + 1 == REPEATS_MAX || begin_ns - first_ns > BUDGET_NS * (uint64_t)count;
        pair->is_late = begin_ns > pair->deadline_ns;
      }
      calibrate_pair_sync(thread);
      uint64_t took_ns = base_clock_now_ns() - begin_ns;
      if (repeat >= 0 && took_ns < shortest_ns[i]) shortest_ns[i] = took_ns;
    }
    if (repeat < REPEATS_MIN - 1 || !pair->enough) continue;
    memcpy(ns, shortest_ns, (size_t)count * sizeof *ns);
    return;
  }
}
