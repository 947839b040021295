/*
 * Estimates a call over the links of a fabric by simulating it: each step starts as soon as its
 * input is there and its core is free, each message takes its path, and wires carry one message
 * after another (wires.h). The price of a call between hosts follows from which messages meet on
 * which link at what time, which counts of operations (profile.h) do not show.
 */
#ifndef TUNE_LINK_SIM_H
#define TUNE_LINK_SIM_H

#include "tune/price.h"

typedef struct tune_link_times {
  uint64_t total_ps; /* from the common start of all ranks to the end of the last */
  uint64_t
      term_ps[TUNE_TERM_COUNT]; /* of the chain of steps that ends last; their sum is total_ps */
  tune_bottleneck_t bottleneck;
} tune_link_times_t;

/* plan: of all ranks; its shape's layout has a fabric. All ranks start the call at once. */
coll_status_t tune_link_sim(const tune_pricing_t *pricing, const plan_t *plan,
                            tune_link_times_t *times);

#endif
