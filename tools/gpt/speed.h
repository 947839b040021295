/*
 * Training speed relative to the machine's limit: the FLOPs per token, and the rate of matrix
 * products (GEMM) that all ranks reach together with the fastest library.
 */
#ifndef TOOLS_GPT_SPEED_H
#define TOOLS_GPT_SPEED_H

#include "libtrain/common/precision.h"
#include "libtrain/gemm/gemm.h"
#include "libtrain/model/layout.h"
#include "libtrain/parallel/group.h"

typedef struct gpt_speed {
  double flops_per_token;         /* train_layout_flops_per_token */
  double needed_per_token;        /* train_metrics_flops_per_token */
  const char *formula;            /* of that */
  double measured_per_s;          /* FLOP/s, summed over all ranks */
  double gemm_per_s;              /* the same, or what a faster step has reached */
  train_dtype_t dtype;            /* of the products' operands */
  char backend[TRAIN_GEMM_LABEL]; /* the library on this rank: "oneDNN 2.6.3" */
} gpt_speed_t;

/* Measures the GEMM rate on all ranks at the same time, each with its thread pool. Collective;
 * takes a fraction of a second. */
coll_status_t gpt_speed_measure(const train_layout_t *layout, const train_group_t *group,
                                train_pool_t *pool, train_precision_t precision,
                                gpt_speed_t *speed);

/* Steps have run at this number of tokens per second. If that takes more than the GEMM rate, the
 * machine was busy while it was measured: the rate becomes what the steps have reached. */
void gpt_speed_note(gpt_speed_t *speed, double tokens_per_s);

/* The fraction of the GEMM rate that this number of tokens per second requires. */
double gpt_speed_fraction(const gpt_speed_t *speed, double tokens_per_s);

/* The same with the FLOPs that are needed: model FLOPs utilization. */
double gpt_speed_mfu(const gpt_speed_t *speed, double tokens_per_s);

#endif
