/*
 * Counts context switches per call where ranks outnumber cores, by simulating the scheduler. The
 * result depends only on plan and ranks. It is why the tuner prefers a plan with few switches to
 * one that moves few bytes.
 */
#ifndef TUNE_SCHED_SIM_H
#define TUNE_SCHED_SIM_H

#include "tune/profile.h"

/* The number of ranks among which the role of executor rank rotates from call to call
 * (algo_t.by_executor). It is 2 where two ranks share each of two cores: then whichever rank is the
 * executor is the last that its core switches to. With more ranks per core, the order in which a
 * core runs them is unknown, so it is 1. */
#define TUNE_EXECUTORS_MAX 2
int tune_executors(int size, int cores);

/* Sets the fields of the profile for ranks that share `cores` cores in blocks, and counts loads
 * that hit the core's cache as TUNE_NEAR; size > cores. Call once per profile. Does nothing for
 * more than TUNE_WHOLE ranks. */
coll_status_t tune_sched_sim(tune_profile_t *profile, int size, int cores);

#endif
