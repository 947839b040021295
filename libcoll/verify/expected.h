/* What each collective's definition asks of every OUTPUT chunk. */
#ifndef VERIFY_EXPECTED_H
#define VERIFY_EXPECTED_H

#include "verify/memory.h"

typedef struct verify_expected {
  const plan_t *plan;
  verify_values_t *values;
  const verify_memory_t *memory;
  verify_report_t *report;
  verify_value_t *agreed; /* [parts]: what the first rank to end got; allreduce only */
  int32_t agreed_rank;    /* that rank, or -1 */
  int32_t *seen;          /* [ranks]: round in which the rank's contribution was met */
  int32_t round;
  verify_value_t *stack; /* values of the reduction that are still to be looked at */
  size_t stack_capacity;
} verify_expected_t;

coll_status_t verify_expected_create(const plan_t *plan, verify_values_t *values,
                                     const verify_memory_t *memory, verify_report_t *report,
                                     verify_expected_t *expected);
void verify_expected_free(verify_expected_t *expected);

/* Whether the rank, whose call is about to return having seen what `view` says, has its result. */
coll_status_t verify_expected_check(verify_expected_t *expected, int32_t rank,
                                    const verify_view_t *view);

/* Alltoallv's blocks have sizes of their own: whether `value` may be stored in `place`. */
bool verify_expected_fits(const verify_expected_t *expected, verify_place_t place,
                          verify_value_t value);

#endif
