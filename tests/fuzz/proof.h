/*
 * The verifier on plans that a parser has accepted.
 */
#ifndef FUZZ_PROOF_H
#define FUZZ_PROOF_H

#include "plan/plan.h"

/* Verifies the plan, unless it is too large for the time of one input. */
void fuzz_proof(const plan_t *plan);

#endif
