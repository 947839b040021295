/*
 * Two threads of this process that do the same work at the same time, each on a core of its own,
 * and how long that takes: what the calibration times things with. Of many short turns those count
 * that nothing disturbed: what the machine does when nobody else wants it.
 */
#ifndef COMM_CALIBRATION_PAIR_H
#define COMM_CALIBRATION_PAIR_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CALIBRATION_WORKS_MAX 8

/* What the two share; zeros but for late_ns. */
typedef struct calibration_pair {
  struct {
    _Alignas(128) _Atomic uint32_t count; /* by the half of this number alone */
  } met[2];
  uint64_t late_ns;          /* when all is given up */
  _Atomic bool enough, late; /* by half 0 alone, between the two meetings of a turn */
} calibration_pair_t;

typedef struct calibration_thread {
  calibration_pair_t *duet;
  int number;       /* 0 or 1 */
  bool shares_core; /* with the other one */
} calibration_thread_t;

/* Both halves have come this far; what either did before, both see afterwards. */
void calibration_pair_sync(const calibration_thread_t *half);

/* One trip of a flag: half 0 looks while half 1 answers, or the other way round. */
void calibration_pair_trip(const calibration_thread_t *half);

/* Work that both halves do; `size` is the work's own. */
typedef void calibration_work_t(void *context, size_t size);

/* Nanoseconds of a turn until both halves are done, for each of the works, which come one after the
 * other, so that what disturbs one for a while disturbs all; 0 where it is late. Of the turns after
 * the first `warmups`: what a quarter of them stay below, so neither those that something disturbed
 * count nor a lucky one. */
void calibration_pair_time(const calibration_thread_t *half, void *context,
                           calibration_work_t *const works[],
                    int count, size_t size, int warmups, uint64_t ns[]);

#endif
