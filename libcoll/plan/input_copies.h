/*
 * Makes a plan for calls in place one for calls out of place: each rank first copies its INPUT to
 * the chunks of OUTPUT that would be the same memory (plan_alias), and uses those.
 */
#ifndef PLAN_INPUT_COPIES_H
#define PLAN_INPUT_COPIES_H

#include "plan/plan.h"

/* Changes all programs, also their in_place. *changed is false, and nothing is changed, if INPUT is
 * not a part of OUTPUT in calls of the collective (reduce_scatter, scatter). The result must be
 * verified: peers may read INPUT before it is copied. COLL_ERROR_MEMORY: the plan can only be
 * freed.
 */
coll_status_t plan_add_input_copies(plan_t *plan, bool *changed);

/* Names INPUT as plan_add_input_copies does, but copies nothing: the same plan for calls in place,
 * whose ranks work together with ranks that copy. */
void plan_rename_input(plan_t *plan);

#endif
