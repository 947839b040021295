/* Schedules for the brute-force interpreter: random, or exhaustive. */
#ifndef VERIFY_TEST_SCHEDULE_H
#define VERIFY_TEST_SCHEDULE_H

#include "brute.h"

/* Runs one schedule, determined by the seed. */
brute_fault_t schedule_run(brute_t *brute, uint64_t seed);

/* Runs every schedule with at most `preemptions` preemptions (Musuvathi & Qadeer 2007), up to
 * runs_max of them, and stops at the first fault. *runs: their number. */
brute_fault_t schedule_explore(brute_t *brute, int preemptions, size_t runs_max, size_t *runs);

#endif
