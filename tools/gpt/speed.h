/*
 * Training speed relative to the machine's limit: the FLOPs per token, and the rate of
 * single-precision matrix products (sgemm) that all ranks reach together.
 */
#ifndef TOOLS_GPT_SPEED_H
#define TOOLS_GPT_SPEED_H

#include "libtrain/model/layout.h"
#include "libtrain/ops/pool.h"
#include "libtrain/parallel/group.h"

typedef struct gpt_speed {
  double flops_per_token; /* train_layout_flops_per_token */
  double sgemm_per_s;     /* FLOP/s, summed over all ranks */
} gpt_speed_t;

/* Measures the sgemm rate on all ranks at the same time, each with its thread pool. Collective;
 * takes a fraction of a second. */
coll_status_t gpt_speed_measure(const train_layout_t *layout, const train_group_t *group,
                                train_pool_t *pool, gpt_speed_t *speed);

/* The fraction of the sgemm rate that this number of tokens per second requires. */
double gpt_speed_fraction(const gpt_speed_t *speed, double tokens_per_s);

#endif
