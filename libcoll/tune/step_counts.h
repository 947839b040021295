/* The operations that one step of a plan consists of. */
#ifndef TUNE_STEP_COUNTS_H
#define TUNE_STEP_COUNTS_H

#include "tune/profile.h"

/* The chunks of INPUT and OUTPUT that a rank has loaded or stored in the current pass, and what was
 * found out about its program. */
typedef struct tune_touched {
  bool *chunks[PLAN_SCRATCH]; /* [INPUT], [OUTPUT] */
  /* The steps of that lane from receives_begin to before receives_end are RECVs, and the one at
   * receives_end is not. NULL: not looked for yet. */
  const plan_lane_t *receives_of;
  size_t receives_begin, receives_end;
} tune_touched_t;

/* The caller calls tune_touched_free, also on failure. COLL_ERROR_MEMORY. */
coll_status_t tune_touched_create(const plan_t *plan, int32_t rank, tune_touched_t *touched);
void tune_touched_forget(const plan_t *plan, int32_t rank, tune_touched_t *touched);
void tune_touched_free(tune_touched_t *touched);

/* Of the step at `index` of a lane of the rank's program; hops: 0. Updates `touched`. */
tune_counts_t tune_step_counts(const plan_t *plan, int32_t rank, const plan_lane_t *lane,
                               size_t index, tune_touched_t *touched);

void tune_counts_add(tune_counts_t *counts, const tune_counts_t *more);

/* counts * factor / divisor. */
tune_counts_t tune_counts_times(const tune_counts_t *counts, int64_t factor, int64_t divisor);

#endif
