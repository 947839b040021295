/*
 * The verifier: a simple, slow, symbolic run of all ranks of a plan. It is a second implementation
 * that shares no code with the engine. Values are expressions over (rank, chunk) leaves; the order
 * of events is tracked by a vector clock per lane.
 *
 * Straight-line programs with FIFO channels of one writer and one reader are a Kahn process network
 * (Kahn 1974): which events happen, and the happens-before order between them, do not depend on the
 * schedule. So one run with FIFOs of exactly the stated depth proves the absence of deadlock for
 * that depth and every greater one, and one pass of vector clocks finds a race if there is any.
 */
#ifndef VERIFY_VERIFY_H
#define VERIFY_VERIFY_H

#include "plan/plan.h"
#include "verify/verdict.h"

/* Verifies a plan, which must contain the programs of all ranks. The verdict is in *report. The
 * returned status is an error only if the run itself failed (out of memory). */
coll_status_t verify_plan(const plan_t *plan, verify_report_t *report);

#endif
