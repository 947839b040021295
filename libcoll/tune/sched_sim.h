/*
 * How often a core turns from one rank to the next in a call, where ranks outnumber cores: played
 * through, a pure function of plan and ranks. What makes a plan that needs few turns cheaper than
 * one that needs few bytes.
 */
#ifndef TUNE_SCHED_SIM_H
#define TUNE_SCHED_SIM_H

#include "tune/profile.h"

/* How many ranks should take the lead of calls in turns (algo_t's led): where two share each of two
 * cores, whichever rank is the executor then is the last that a core turns to. Where more do,
 * nobody can say in which order a core takes them. */
#define TUNE_EXECUTORS_MAX 2
int tune_executors(int size, int cores);

/* Sets what the profile says of ranks that share `cores` cores in blocks, and counts as near what
 * comes from their core's cache; size > cores. Once per profile; leaves it as it is for more than
 * TUNE_WHOLE ranks. */
coll_status_t tune_sched_sim(tune_profile_t *profile, int size, int cores);

#endif
