/*
 * A pair of threads that do the same work at the same time, each on a core of its own, to time it.
 * A measurement repeats the work many times and takes the shortest time, so that repetitions which
 * other processes disturbed do not count.
 */
#ifndef CALIBRATE_PAIR_H
#define CALIBRATE_PAIR_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CALIBRATE_WORKS_MAX 8

/* Shared by the two threads. All zero but for deadline_ns. */
typedef struct calibrate_pair {
  struct {
    _Alignas(128) _Atomic uint32_t count; /* written by the thread of this number alone */
  } arrivals[2];
  uint64_t deadline_ns;         /* measurements stop after it */
  _Atomic bool enough, is_late; /* written by thread 0 alone, between two synchronizations */
} calibrate_pair_t;

typedef struct calibrate_thread {
  calibrate_pair_t *pair;
  int number;       /* 0 or 1 */
  bool shares_core; /* with the other thread */
} calibrate_thread_t;

/* Barrier of the two threads: what either wrote before, both see afterwards. */
void calibrate_pair_sync(const calibrate_thread_t *thread);

/* One round trip of a flag between the two threads. */
void calibrate_pair_trip(const calibrate_thread_t *thread);

/* Work that both threads do; `size` has the meaning that the work gives it. */
typedef void calibrate_work_t(void *context, size_t size);

/* Times `count` works (at most CALIBRATE_WORKS_MAX). A repetition does all of them one after the
 * other, so that a disturbance affects all alike. ns[i]: how long both threads took for works[i],
 * the shortest of the repetitions after the first `warmups`; 0 if the deadline passed. */
void calibrate_pair_time(const calibrate_thread_t *thread, void *context,
                         calibrate_work_t *const works[], int count, size_t size, int warmups,
                         uint64_t ns[]);

/* The shortest time of a message's way from one of two CPUs to the other, in picoseconds, which is
 * TUNE_HOP: as calibrate_costs_measure measures it, but within 3 ms. 0: unknown, because this
 * process may not use these CPUs, or they have other work. */
uint32_t calibrate_pair_hop_ps(const int cpus[2]);

#endif
