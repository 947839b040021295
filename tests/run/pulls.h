/*
 * Which algorithms pull: read peers' INPUT and OUTPUT, by get where the memory is not mapped.
 */
#ifndef TESTS_RUN_PULLS_H
#define TESTS_RUN_PULLS_H

#include <stdlib.h>

#include "algo/algo.h"

/* The reach of the algorithm's plans for `size` ranks. */
static inline plan_reach_t reach_of(coll_collective_t collective, const char *name, int size) {
  const algo_t *algo;
  plan_t *plan;
  const plan_shape_t shape = {.collective = collective, .size = size};
  if (algo_find(collective, name, &algo) != COLL_OK) abort();
  if (algo_build(algo, &shape, 0, false, &plan) != COLL_OK) abort();
  plan_reach_t reach = plan->reach;
  plan_free(plan);
  return reach;
}

#endif
