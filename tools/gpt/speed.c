/* Sums libtrain's measurements over the ranks. */
#include "tools/gpt/speed.h"

#include "libtrain/ops/blas.h"

coll_status_t gpt_speed_measure(const train_layout_t *layout, const train_group_t *group,
                                train_pool_t *pool, gpt_speed_t *speed) {
  double rate = 0;
  COLL_TRY(train_group_agree(group, train_blas_rate(pool, &rate)));
  COLL_TRY(train_group_sum_doubles(group, &rate, 1));
  *speed =
      (gpt_speed_t){.flops_per_token = train_layout_flops_per_token(layout, layout->config.context),
                    .sgemm_per_s = rate};
  return COLL_OK;
}

double gpt_speed_fraction(const gpt_speed_t *speed, double tokens_per_s) {
  return speed->flops_per_token * tokens_per_s / speed->sgemm_per_s;
}
