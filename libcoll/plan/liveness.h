/*
 * Spans compared, whether data that a program stores is read again by later steps of its lane, and
 * whether data that it reads is overwritten later.
 */
#ifndef PLAN_LIVENESS_H
#define PLAN_LIVENESS_H

#include "plan/plan.h"

#define PLAN_LIVENESS_STEPS_MAX 256 /* longer lanes are not to be searched */

bool plan_spans_equal(const plan_span_t *a, const plan_span_t *b);

/* Whether two spans have chunks in common. */
bool plan_spans_overlap(const plan_span_t *a, const plan_span_t *b);

/* Whether a step of the lane from `step` on reads the span, before one overwrites all of it. */
bool plan_is_read_later(const plan_program_t *program, const plan_lane_t *lane, size_t step,
                        const plan_span_t *span);

/* Whether nothing is stored in the span, which is of the program's own rank, by any step that may
 * run after the lane's step, in any pass of the call, or by a peer. */
bool plan_stays(const plan_t *plan, const plan_program_t *program, int lane, size_t step,
                const plan_span_t *span);

#endif
