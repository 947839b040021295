/* The value that each collective's definition requires in every OUTPUT chunk. */
#ifndef VERIFY_EXPECTED_H
#define VERIFY_EXPECTED_H

#include "verify/memory.h"

typedef struct verify_expected {
  const plan_t *plan;
  verify_values_t *values;
  const verify_memory_t *memory;
  verify_report_t *report;
  verify_value_t *agreed; /* [parts]: results of the first rank to end; allreduce only */
  int32_t agreed_rank;    /* that rank, or -1 */
  int32_t *seen;          /* [ranks]: last `round` in which the rank's contribution was found */
  int32_t round;
  verify_value_t *stack; /* values of the expression that are not yet visited */
  size_t stack_capacity;
} verify_expected_t;

coll_status_t verify_expected_create(const plan_t *plan, verify_values_t *values,
                                     const verify_memory_t *memory, verify_report_t *report,
                                     verify_expected_t *expected);
void verify_expected_free(verify_expected_t *expected);

/* Checks the OUTPUT of a rank whose call is about to return. `view`: the events it has observed. */
coll_status_t verify_expected_check(verify_expected_t *expected, int32_t rank,
                                    const verify_view_t *view);

/* Whether `value` may be stored in `place`, where blocks differ in size. If pairs of ranks know the
 * sizes, only where it belongs; else in any place of its size. */
bool verify_expected_fits(const verify_expected_t *expected, verify_place_t place,
                          verify_value_t value);

#endif
