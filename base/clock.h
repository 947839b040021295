/* Monotonic time, in nanoseconds. */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

#include <stdint.h>

uint64_t base_clock_now_ns(void);
void base_clock_sleep_ns(uint64_t duration_ns);

#endif
