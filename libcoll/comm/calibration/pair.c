/* Half 0 says when to stop, and when to give up all: between the two meetings of the last work, so
 * that the other half finds what it said after them. */
#include "comm/calibration/pair.h"

#include <sched.h>
#include <stdlib.h>

#include "base/atomics.h"
#include "base/clock.h"

#define TURNS 40 /* short ones: some find both cores free, even on a machine at work */
#define TURNS_LEAST 4
#define BUDGET_NS 2000000 /* for the turns that count, if they are not fewer */
#define LOOKS 20000       /* before a half lets others have its core */

static void await(const calibration_thread_t *half, uint32_t count) {
  _Atomic uint32_t *theirs = &half->duet->met[1 - half->number].count;
  int looks = 0;
  while ((int32_t)(atomic_load_explicit(theirs, memory_order_acquire) - count) < 0) {
    base_cpu_relax();
    if (half->shares_core || ++looks % LOOKS == 0) sched_yield();
  }
}

static uint32_t so_far(const calibration_thread_t *half) {
  return atomic_load_explicit(&half->duet->met[half->number].count, memory_order_relaxed);
}

static uint32_t arrive(const calibration_thread_t *half) {
  uint32_t count = so_far(half) + 1;
  atomic_store_explicit(&half->duet->met[half->number].count, count, memory_order_release);
  return count;
}

void calibration_pair_sync(const calibration_thread_t *half) {
  await(half, arrive(half));
}

void calibration_pair_trip(const calibration_thread_t *half) {
  if (half->number == 0) {
    calibration_pair_sync(half);
  } else {
    await(half, so_far(half) + 1);
    arrive(half);
  }
}

static int compare_times(const void *left, const void *right) {
  uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
  return (a > b) - (a < b);
}

void calibration_pair_time(const calibration_thread_t *half, void *context,
                           calibration_work_t *const works[],
                    int count, size_t size, int warmups, uint64_t ns[]) {
  uint64_t took_ns[CALIBRATION_WORKS_MAX][TURNS], first_ns = 0;
  calibration_pair_t *duet = half->duet;
  for (int i = 0; i < count; i++) ns[i] = 0;
  for (int turn = -warmups; !duet->late; turn++) {
    for (int i = 0; i < count; i++) {
      calibration_pair_sync(half);
      uint64_t begin_ns = base_clock_now_ns();
      if (turn <= 0 && i == 0) first_ns = begin_ns;
      works[i](context, size);
      if (half->number == 0 && i == count - 1) {
        duet->enough = turn + 1 == TURNS || begin_ns - first_ns > BUDGET_NS * (uint64_t)count;
        duet->late = begin_ns > duet->late_ns;
      }
      calibration_pair_sync(half);
      if (turn >= 0) took_ns[i][turn] = base_clock_now_ns() - begin_ns;
    }
    if (turn < TURNS_LEAST - 1 || !duet->enough) continue;
    for (int i = 0; i < count; i++) {
      qsort(took_ns[i], (size_t)turn + 1, sizeof took_ns[i][0], compare_times);
      ns[i] = took_ns[i][turn / 4];
    }
    return;
  }
}
