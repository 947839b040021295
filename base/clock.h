/* Monotonic time, in nanoseconds. */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

#include <stdint.h>

uint64_t base_clock_now_ns(void);
void base_clock_sleep_ns(uint64_t duration_ns);

/* For how long a system call may block in a wait that has left_ns left. The wait then reads the
 * clock again. All time limits of system calls come from here, by the functions of deadline.h
 * (tools/lint): a test that replaces the clock wakes every wait when its time steps. */
uint64_t base_clock_limit_ns(uint64_t left_ns);

#endif
