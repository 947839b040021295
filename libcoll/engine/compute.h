/*
 * The steps that touch memory alone: copies and reductions, piece by piece. A reduction whose
 * result the next steps of its lane copy elsewhere is carried out together with them, so that the
 * result is written to every place while it is still in the cache; the plan keeps the steps apart.
 */
#ifndef ENGINE_COMPUTE_H
#define ENGINE_COMPUTE_H

#include "engine/span.h"

coll_status_t engine_compute_copy(const engine_place_t *place, const plan_step_t *step);

/* The reduction at `index` of the lane, and the copies of its result behind it. *steps: how many
 * steps that were. */
coll_status_t engine_compute_reduce(const engine_place_t *place, const plan_program_t *program,
                                    const plan_lane_t *lane, size_t index, size_t *steps);

#endif
