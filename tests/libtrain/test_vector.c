/* Compares the exponential and the hyperbolic tangent with libm's. */
#include <criterion/criterion.h>
#include <math.h>

#include "libtrain/common/vector.h"

Test(vector, exponential_is_accurate) {
  double worst = 0;
  for (float x = -87; x <= 88; x += 0.00031f) {
    double expected = exp((double)x), error = fabs((double)train_exp(x) - expected) / expected;
    worst = error > worst ? error : worst;
  }
  cr_assert_lt(worst, 2e-7, "relative error %g", worst);
  cr_assert_eq(train_exp(0), 1);
  cr_assert_lt(train_exp(-1e30f), 1e-37f);
  cr_assert_gt(train_exp(1e30f), 1e38f);
  cr_assert(isnan(train_exp(NAN)));
}

Test(vector, hyperbolic_tangent_is_accurate) {
  double worst = 0;
  for (float x = -20; x <= 20; x += 0.00007f) {
    double error = fabs((double)train_tanh(x) - tanh((double)x));
    worst = error > worst ? error : worst;
  }
  cr_assert_lt(worst, 3e-7, "absolute error %g", worst);
  cr_assert_eq(train_tanh(1e30f), 1);
  cr_assert_eq(train_tanh(-1e30f), -1);
  cr_assert(isnan(train_tanh(NAN)));
}
