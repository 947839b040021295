/* The operations that one step of a plan consists of. */
#ifndef TUNE_STEP_COUNTS_H
#define TUNE_STEP_COUNTS_H

#include "plan/fuse.h"
#include "tune/profile.h"

/* The chunks of INPUT and OUTPUT that a rank has loaded or stored in the current pass, and the
 * actions of its program. */
typedef struct tune_touched {
  bool *chunks[PLAN_SCRATCH]; /* [INPUT], [OUTPUT] */
  plan_fused_t **actions;     /* [lanes][steps]: of each step, the action that it is part of */
  plan_fused_t *all_actions;  /* of all lanes */
} tune_touched_t;

/* can: of the host, or of what else carries out the plan. The caller calls tune_touched_free, also
 * on failure. COLL_ERROR_MEMORY. */
coll_status_t tune_touched_create(const plan_t *plan, int32_t rank, const plan_capabilities_t *can,
                                  tune_touched_t *touched);
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
