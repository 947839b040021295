/*
 * Locations in the run, and the function that rejects a plan. The first rejection fills in the
 * report and ends the run with an error status, which verify_plan turns back into COLL_OK.
 */
#ifndef VERIFY_REPORT_H
#define VERIFY_REPORT_H

#include "plan/plan.h"
#include "verify/verdict.h"

#define VERIFY_AT_START (-1)
#define VERIFY_AT_END (-2)

/* A step, or the start or end of a rank's call. */
typedef struct verify_site {
  int32_t rank, lane;
  int32_t step; /* or VERIFY_AT_START, VERIFY_AT_END */
} verify_site_t;

/* "rank 2 lane 0 step 7 (reduce)", "the end of rank 2's call". Returns `text`. */
const char *verify_site_describe(const plan_t *plan, verify_site_t site, char *text, size_t bytes);

/* Fills in the report: the location, then the sentence. Always returns an error. */
coll_status_t verify_reject(const plan_t *plan, verify_report_t *report, verify_verdict_t verdict,
                            verify_site_t site, const char *format, ...)
    __attribute__((format(printf, 5, 6)));

/* Sets the step that made an error which shows at the start or end of a call. */
void verify_set_cause(verify_report_t *report, verify_site_t site);

#endif
