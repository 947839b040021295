/*
 * Counts context switches per call where ranks outnumber cores, by simulating the scheduler. The
 * result depends only on plan and ranks. It is why the tuner prefers a plan with few switches to
 * one that moves few bytes.
 */
#ifndef TUNE_SCHED_SIM_H
#define TUNE_SCHED_SIM_H

#include "tune/profile.h"

/* Sets the fields of the profile for ranks that share `cores` cores in blocks, and counts loads
 * that hit the core's cache as TUNE_NEAR; size > cores. Call once per profile. Does nothing for
 * more than TUNE_WHOLE ranks. */
coll_status_t tune_sched_sim(tune_profile_t *profile, int size, int cores);

#endif
