/* The operations that one step of a plan consists of. */
#ifndef TUNE_STEP_COUNTS_H
#define TUNE_STEP_COUNTS_H

#include "tune/profile.h"

/* A hash table of spans. */
typedef struct tune_spans {
  const plan_span_t **slots; /* [a power of two above twice the largest count]; NULL: free */
  size_t mask;               /* of the slots that are in use now */
} tune_spans_t;

/* The chunks of INPUT and OUTPUT that a rank has loaded or stored in the current pass, and what was
 * found out about its program. */
typedef struct tune_touched {
  bool *chunks[PLAN_SCRATCH]; /* [INPUT], [OUTPUT] */
  /* Where messages may be read in place: the last RECVs in a row that were looked at, which are the
   * steps [run_begin, run_end) of that lane and as many as there are; NULL: none yet. */
  const plan_lane_t *run_of;
  size_t run_begin, run_end;
  tune_spans_t received; /* what they fill */
  tune_spans_t sources;  /* of the reduction behind them, if there is one */
  /* The last copy that was looked at, NULL: none yet; and the reduction whose result it copies,
   * NULL: none. */
  const plan_step_t *copy, *copied;
} tune_touched_t;

/* The caller calls tune_touched_free, also on failure. COLL_ERROR_MEMORY. */
coll_status_t tune_touched_create(const plan_t *plan, int32_t rank, tune_touched_t *touched);
void tune_touched_forget(const plan_t *plan, int32_t rank, tune_touched_t *touched);
void tune_touched_free(tune_touched_t *touched);

/* Adds those of the step at `index` of a lane of the rank's program, except for hops. Updates
 * `touched`. */
void tune_step_counts_add(const plan_t *plan, int32_t rank, const plan_lane_t *lane, size_t index,
                          tune_touched_t *touched, tune_counts_t *counts);

static inline tune_counts_t tune_step_counts(const plan_t *plan, int32_t rank,
                                             const plan_lane_t *lane, size_t index,
                                             tune_touched_t *touched) {
  tune_counts_t counts = {0};
  tune_step_counts_add(plan, rank, lane, index, touched, &counts);
  return counts;
}

void tune_counts_add(tune_counts_t *counts, const tune_counts_t *more);

/* counts * factor / divisor. */
tune_counts_t tune_counts_times(const tune_counts_t *counts, int64_t factor, int64_t divisor);

#endif
