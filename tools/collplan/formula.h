/*
 * Formulas as papers write them, evaluated exactly: "2(p-1)/p S". Factors without a sign between
 * them are multiplied; a letter is a variable. [p>P] is 1 if it holds, else 0 (also < and =).
 * ⌈log2 p⌉ and ⌊log2 p⌋ take one variable.
 */
#ifndef COLLPLAN_FORMULA_H
#define COLLPLAN_FORMULA_H

#include "base/status.h"

#define FORMULA_VARIABLES 128 /* by character */

typedef struct formula_values {
  int64_t of[FORMULA_VARIABLES]; /* 0: not defined */
} formula_values_t;

/* COLL_ERROR_INVALID: the formula is malformed, a variable is not defined, or the value is no
 * integer. */
coll_status_t formula_evaluate(const char *formula, const formula_values_t *values,
                               int64_t *result);

#endif
