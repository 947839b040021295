/*
 * The expected results of ranks that each run one kind of call (call_kinds.h), then a barrier, and
 * then destroy the communicator. They follow only from the definition of a mismatch in coll.h: the
 * ranks are simulated as lists of numbered collectives and messages, without code of the library.
 */
#ifndef TESTS_API_CALL_ORACLE_H
#define TESTS_API_CALL_ORACLE_H

#include "call_kinds.h"

typedef struct call_verdict {
  bool legal;                       /* every call succeeds on every rank */
  bool must_report[CALL_RANKS_MAX]; /* these ranks get COLL_ERROR_MISMATCH */
  bool untaken;    /* a message has no receive: at least one rank gets COLL_ERROR_MISMATCH */
  bool may_buffer; /* a send is larger than what may be left unreceived. If all calls returned
                      COLL_OK, the message is merely unreceived and must_report does not apply */
  /* The lowest number whose collectives differ between two ranks; -1: none. */
  int differ_number, differ_ranks[2];
  bool differ_in_group;     /* they are equal calls in groups of different composition */
  bool differ_in_algorithm; /* they are equal calls with different forced algorithms */
} call_verdict_t;

/* kinds: one per rank. */
void call_oracle_judge(const call_kind_t *const kinds[], int size, call_verdict_t *verdict);

/* Whether a report names what it must: the two calls that differ, or those that wait. returned: all
 * calls and the barrier returned COLL_OK on all ranks, and the report is from coll_comm_destroy. */
bool call_oracle_accepts(const call_kind_t *const kinds[], int size, const call_verdict_t *verdict,
                         bool returned, const char *sentence);

#endif
