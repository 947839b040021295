/*
 * A clock that a test steps, in place of base/clock.h: programs that are linked with this file and
 * the static rooms have it, and so have all ranks of a run, processes or threads. It is the real
 * one until it is frozen. Then limits of the library pass only when the test says so, however slow
 * the machine is. What blocks in a system call looks at the clock every 2 ms of real time, and a
 * sleep lasts no longer. The harness itself keeps the real clock.
 */
#ifndef TESTS_HARNESS_VIRTUAL_TIME_H
#define TESTS_HARNESS_VIRTUAL_TIME_H

#include <stdint.h>

/* In a test, before its ranks are started: they will share a clock, the real one at first. */
void virtual_time_begin(void);

/* The next ranks have the real clock. */
void virtual_time_end(void);

/* Freezes it, unless it is frozen already. */
void virtual_time_freeze(void);

/* Steps the frozen clock. */
void virtual_time_advance(uint64_t ns);

#endif
