/*
 * The verifier: a slow, obvious, symbolic run of all ranks of a plan, a second implementation that
 * shares nothing with the engine. Values are expressions over (rank, chunk) leaves; order is a
 * vector clock per lane.
 *
 * Straight-line programs with FIFO channels of one writer and one reader are a Kahn process network
 * (Kahn 1974): which events happen, and the happens-before order between them, do not depend on the
 * schedule. So one run with FIFOs of exactly the stated depth proves the absence of deadlock for
 * that depth and every greater one, and one pass of vector clocks finds a race if there is any.
 */
#ifndef VERIFY_VERIFY_H
#define VERIFY_VERIFY_H

#include "plan/plan.h"

typedef enum verify_verdict {
  VERIFY_PROVED,
  VERIFY_MALFORMED,     /* plan_check_program refused a program */
  VERIFY_UNMATCHED,     /* a message or signal left over at the end */
  VERIFY_SIZE,          /* a message and its receive differ in chunks */
  VERIFY_DEADLOCK,      /* no lane can go on, at the stated FIFO depth */
  VERIFY_UNWRITTEN,     /* a read of what was never written */
  VERIFY_RACE,          /* two accesses, one a write, that nothing orders; a peer's access that may
                           come before this rank's call starts or after it returns counts as one */
  VERIFY_CONST_INPUT,   /* a write to INPUT that is not OUTPUT as well */
  VERIFY_CONTRIBUTION,  /* an output chunk does not hold exactly what the collective asks */
  VERIFY_NOT_IDENTICAL, /* ranks hold the same sum, but reduced in different orders */
  VERIFY_ORDER          /* a result is not reduced in the order that the plan states */
} verify_verdict_t;

/* What was found first, and where; step -1 stands for the start or the end of the call. */
typedef struct verify_report {
  verify_verdict_t verdict;
  int rank, lane, step;
  char text[400]; /* a sentence naming rank, lane, step and why */
  size_t steps;   /* steps run, all ranks */
} verify_report_t;

/* Proves the plan, all programs of which must be there. The status speaks of the run alone (out of
 * memory); the verdict is in *report. */
coll_status_t verify_plan(const plan_t *plan, verify_report_t *report);

const char *verify_verdict_name(verify_verdict_t verdict); /* "race" */

#endif
