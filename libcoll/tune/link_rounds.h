/*
 * Estimates a call over the links of a fabric by the programs of some ranks, where simulating all
 * of them (link_sim.h) would take too long. Right for plans in which all ranks do the same at the
 * same time, as of rings and direct exchanges, which are the ones that have so many steps.
 */
#ifndef TUNE_LINK_ROUNDS_H
#define TUNE_LINK_ROUNDS_H

#include "tune/link_sim.h"

/* A program is divided into rounds, each of which sends, then receives. A rank's round lasts as
 * long as its most loaded wire needs for what the sampled ranks, those of the first host, send in
 * that round, plus the longest latency and the price of its steps. As ranks wait for others but not
 * for all, a round counts as the mean over the ranks: in a ring, data cross from host to host in
 * some of the rounds only. */
coll_status_t tune_link_rounds(const tune_pricing_t *pricing, tune_link_times_t *times);

#endif
