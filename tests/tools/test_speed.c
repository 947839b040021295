/* Shares of the rate of matrix products: none is above 1, however busy the machine was while the
 * rate was measured. */
#include <criterion/criterion.h>

#include "tools/gpt/speed.h"

static gpt_speed_t measured(double per_s) {
  return (gpt_speed_t){
      .flops_per_token = 100, .needed_per_token = 90, .measured_per_s = per_s, .gemm_per_s = per_s};
}

Test(speed, shares_are_of_the_measured_rate) {
  gpt_speed_t speed = measured(1000);
  gpt_speed_note(&speed, 5);
  cr_assert_float_eq(gpt_speed_fraction(&speed, 5), 0.5, 1e-12);
  cr_assert_float_eq(gpt_speed_mfu(&speed, 5), 0.45, 1e-12);
  cr_assert_eq(speed.gemm_per_s, 1000);
}

Test(speed, a_faster_step_raises_the_rate) {
  gpt_speed_t speed = measured(1000);
  gpt_speed_note(&speed, 20);
  gpt_speed_note(&speed, 15);
  cr_assert_float_eq(gpt_speed_fraction(&speed, 20), 1, 1e-12);
  cr_assert_float_eq(gpt_speed_fraction(&speed, 15), 0.75, 1e-12);
  cr_assert_float_eq(gpt_speed_mfu(&speed, 20), 0.9, 1e-12);
  cr_assert_eq(speed.measured_per_s, 1000, "the setup's is shown as it was measured");
}

Test(speed, both_shares_are_below_one) {
  gpt_speed_t speed = measured(1000);
  speed.needed_per_token = 300; /* of a formula that counts what the model leaves out */
  gpt_speed_note(&speed, 20);
  cr_assert_leq(gpt_speed_mfu(&speed, 20), 1);
  cr_assert_leq(gpt_speed_fraction(&speed, 20), 1);
}
