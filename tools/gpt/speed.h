/*
 * How fast a run is against what its machine could do at most: the arithmetic that a token takes,
 * over the rate of single-precision matrix products (sgemm) that all ranks reach together.
 */
#ifndef TOOLS_GPT_SPEED_H
#define TOOLS_GPT_SPEED_H

#include "libtrain/model/layout.h"
#include "libtrain/ops/pool.h"
#include "libtrain/parallel/group.h"

typedef struct gpt_speed {
  double flops_per_token; /* train_layout_flops_per_token */
  double sgemm_per_s;     /* FLOP/s, all ranks together */
} gpt_speed_t;

/* Measures sgemm on all ranks at once, each with its pool: a collective of a fraction of a
 * second. */
coll_status_t gpt_speed_measure(const train_layout_t *layout, const train_group_t *group,
                                train_pool_t *pool, gpt_speed_t *speed);

/* The part of the sgemm rate that so many tokens/s are. */
double gpt_speed_fraction(const gpt_speed_t *speed, double tokens_per_s);

#endif
