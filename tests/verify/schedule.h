/* In which order the brute-force interpreter lets its actors move: at random, or all there are. */
#ifndef VERIFY_TEST_SCHEDULE_H
#define VERIFY_TEST_SCHEDULE_H

#include "brute.h"

/* One schedule, drawn from the seed. */
brute_fault_t schedule_run(brute_t *brute, uint64_t seed);

/* Every schedule that takes the turn from an actor that could go on at most `preemptions` times
 * (Musuvathi & Qadeer 2007), up to runs_max of them, stopping at the first fault. *runs counts
 * them. */
brute_fault_t schedule_explore(brute_t *brute, int preemptions, size_t runs_max, size_t *runs);

#endif
