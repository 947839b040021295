/*
 * One measurement at a time on a machine: two that run at once would measure each other, and
 * threads that hand a core to each other need a time slice for what else takes nanoseconds.
 */
#ifndef CALIBRATE_EXCLUSIVE_H
#define CALIBRATE_EXCLUSIVE_H

#include <stdint.h>

/* Waits for at most limit_ns until no other process measures. Returns a descriptor to close when
 * done, or -1: another one still measures, or there is no descriptor. */
int calibrate_exclusive_begin(uint64_t limit_ns);

#endif
