/* Sums libtrain's measurements over the ranks. */
#include "tools/gpt/speed.h"

#include <math.h>
#include <stdio.h>

#include "libtrain/planner/metrics.h"

coll_status_t gpt_speed_measure(const train_layout_t *layout, const train_group_t *group,
                                train_pool_t *pool, train_precision_t precision,
                                gpt_speed_t *speed) {
  train_gemm_rate_t rate = {0};
  train_dtype_t dtype = train_precision_stored(precision, TRAIN_KIND_WEIGHTS);
  COLL_TRY(train_group_agree(group, train_gemm_measure(pool, dtype, &rate)));
  COLL_TRY(train_group_sum_doubles(group, &rate.flops, 1));
  *speed = (gpt_speed_t){
      .flops_per_token = train_layout_flops_per_token(layout, layout->config.context),
      .needed_per_token = train_metrics_flops_per_token(&layout->config, layout->config.context),
      .formula = train_metrics_formula(&layout->config),
      .measured_per_s = rate.flops,
      .gemm_per_s = rate.flops,
      .dtype = dtype};
  snprintf(speed->backend, sizeof speed->backend, "%s", rate.backend);
  return COLL_OK;
}

void gpt_speed_note(gpt_speed_t *speed, double tokens_per_s) {
  double reached = fmax(speed->flops_per_token, speed->needed_per_token) * tokens_per_s;
  if (reached > speed->gemm_per_s) speed->gemm_per_s = reached;
}

double gpt_speed_fraction(const gpt_speed_t *speed, double tokens_per_s) {
  return speed->flops_per_token * tokens_per_s / speed->gemm_per_s;
}

double gpt_speed_mfu(const gpt_speed_t *speed, double tokens_per_s) {
  return train_metrics_mfu(speed->needed_per_token, tokens_per_s, speed->gemm_per_s);
}
