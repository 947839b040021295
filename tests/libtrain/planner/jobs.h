/* Jobs, machines and layouts for tests of the planner. */
#ifndef TESTS_LIBTRAIN_PLANNER_JOBS_H
#define TESTS_LIBTRAIN_PLANNER_JOBS_H

#include "libtrain/parallel/store_options.h"
#include "libtrain/planner/plan.h"

/* 4 layers of width 64, 4 heads, context 32, 257 tokens; batch 16. */
static inline train_plan_job_t small_job(void) {
  return (train_plan_job_t){
      .model = {257, 32, 4, 4, 64}, .batch = 16, .bucket_bytes = TRAIN_BUCKET_BYTES};
}

/* 1F1B with one micro-batch. */
static inline train_plan_layout_t layout_of(int dp, int tp, int cp, int pp) {
  const train_mesh_options_t options = {.size = {tp, cp, dp, pp}};
  train_plan_layout_t layout = {.schedule = {.kind = TRAIN_SCHEDULE_1F1B,
                                             .stages = pp,
                                             .micro_batches = 1,
                                             .steps = 1,
                                             .chunks = 1,
                                             .slices = 1}};
  train_mesh_shape_init(&options, dp * tp * cp * pp, &layout.mesh);
  return layout;
}

#define JOBS_RANKS_MAX 64

/* Hosts of `per_host` ranks: 100 GB/s inside, 10 GB/s between them, 1 TFLOP/s a rank. */
static inline train_plan_machine_t machine_of(int ranks, int per_host,
                                              int host_of[JOBS_RANKS_MAX]) {
  for (int rank = 0; rank < ranks; rank++) host_of[rank] = rank / per_host;
  return (train_plan_machine_t){.ranks = ranks,
                                .host_of = host_of,
                                .bandwidth = {100e9, 10e9},
                                .latency_s = {1e-6, 5e-6},
                                .flops = 1e12};
}

#endif
