/* Formulas are evaluated exactly, and malformed ones are refused. */
#include <criterion/criterion.h>
#include <string.h>

#include "tools/collplan/formula.h"

static const formula_values_t values = {
    .of = {['p'] = 12, ['P'] = 8, ['S'] = 24000, ['X'] = 4, ['Y'] = 3}};

Test(formula, values) {
  static const struct {
    const char *formula;
    int64_t value;
  } good[] = {
      {"0", 0},
      {"p-1", 11},
      {"2(p-1)/p S", 44000},
      {"(p-1) S/p", 22000},
      {"2(X-1)/X S + 2(Y-1)/(X Y) S", 44000},
      {"2(X-1)/X S + 2(Y-1)/(XY) S", 44000},
      {"3/2 p - 1", 17},
      {"p/5 S", 57600},
      {"\u2308log2 p\u2309", 4},
      {"\u230alog2 p\u230b", 3},
      {"2\u230alog2 P\u230b + 4[p>P]", 10},
      {"\u2308log2 P\u2309", 3},
      {"[p<P] S + [p=12] 7", 7},
      {"1/3 p/2", 2},
      {"1 - 2 - 3", -4},
      {"S/1000/2/X", 3},
  };
  for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
    int64_t value;
    cr_assert_eq(formula_evaluate(good[i].formula, &values, &value), COLL_OK, "%s",
                 base_last_error());
    cr_expect_eq(value, good[i].value, "%s is not %lld", good[i].formula, (long long)value);
  }
}

Test(formula, refusals) {
  static const char *const bad[] = {"",      "p +",          "(p-1",   "p)",  "q",
                                    "p/0",   "1/5",          "[p>P",   "[p]", "p ^ 2",
                                    "p * 2", "\u2308log2 p", "S/(X-4)"};
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
    int64_t value;
    cr_expect_eq(formula_evaluate(bad[i], &values, &value), COLL_ERROR_INVALID, "'%s'", bad[i]);
  }
}
