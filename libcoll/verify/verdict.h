/* The result of a verification: proved, or the first error found, with its location. */
#ifndef VERIFY_VERDICT_H
#define VERIFY_VERDICT_H

#include <stddef.h>

typedef enum verify_verdict {
  VERIFY_PROVED,
  VERIFY_MALFORMED,     /* plan_check_program refused a program */
  VERIFY_UNMATCHED,     /* a message or signal was never received */
  VERIFY_SIZE,          /* a message and its receive differ in chunks */
  VERIFY_DEADLOCK,      /* no lane can continue with the stated FIFO depth */
  VERIFY_UNWRITTEN,     /* a read of memory that was never written */
  VERIFY_RACE,          /* two unordered accesses, one of them a write; an access by a peer that is
                           not ordered after the start and before the end of this rank's call counts
                           as one */
  VERIFY_CONST_INPUT,   /* a write to INPUT that is not also OUTPUT */
  VERIFY_CONTRIBUTION,  /* an output chunk does not hold exactly what the collective requires */
  VERIFY_NOT_IDENTICAL, /* ranks hold the same sum, reduced in different orders */
  VERIFY_ORDER          /* a result is not reduced in the order that the plan states */
} verify_verdict_t;

/* The first error and its location; step -1: the start or the end of the call. */
typedef struct verify_report {
  verify_verdict_t verdict;
  int rank, lane, step;
  struct {
    int rank, lane, step;
  } cause;        /* the step that made the error: the same, or where that is the start or end, the
                     last one that wrote the wrong chunk or accesses the memory; step -1: none */
  char text[400]; /* a sentence naming rank, lane, step and why */
  size_t steps;   /* steps run, of all ranks */
} verify_report_t;

const char *verify_verdict_name(verify_verdict_t verdict); /* "race" */

#endif
