/* Describes locations in the run, and rejects plans. */
#include "verify/report.h"

#include <stdarg.h>
#include <stdio.h>

const char *verify_site_describe(const plan_t *plan, verify_site_t site, char *text, size_t bytes) {
  if (site.step < 0) {
    snprintf(text, bytes, "the %s of rank %d's call",
             site.step == VERIFY_AT_START ? "start" : "end", site.rank);
    return text;
  }
  const plan_lane_t *lane = &plan->programs[site.rank].lanes[site.lane];
  snprintf(text, bytes, "rank %d lane %d step %d (%s)", site.rank, site.lane, site.step,
           plan_step_kind_name(lane->steps[site.step].kind));
  return text;
}

coll_status_t verify_reject(const plan_t *plan, verify_report_t *report, verify_verdict_t verdict,
                            verify_site_t site, const char *format, ...) {
  char where[80], why[sizeof report->text - sizeof where - 2];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(why, sizeof why, format, arguments);
  va_end(arguments);
  verify_site_describe(plan, site, where, sizeof where);
  snprintf(report->text, sizeof report->text, "%s: %s", where, why);
  report->verdict = verdict;
  report->rank = site.rank;
  report->lane = site.lane;
  report->step = site.step < 0 ? -1 : site.step;
  verify_set_cause(report, site);
  return COLL_ERROR_INVALID;
}

void verify_set_cause(verify_report_t *report, verify_site_t site) {
  report->cause.rank = site.rank;
  report->cause.lane = site.lane;
  report->cause.step = site.step < 0 ? -1 : site.step;
}
