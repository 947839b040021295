/*
 * A brute-force interpreter of plans, as a reference for the verifier. It runs a plan on concrete
 * numbers, chunk by chunk, with reads and writes as separate events, under a given schedule, and
 * checks the results. It shares no code with the verifier.
 *
 * Ranks enter their call at any time and leave it when their lanes have ended. Outside the call
 * their memory holds poison. Every FIFO holds as many messages as the plan states, or more.
 */
#ifndef VERIFY_TEST_BRUTE_H
#define VERIFY_TEST_BRUTE_H

#include "plan/plan.h"

/* The fault that a schedule caused. */
typedef enum brute_fault {
  BRUTE_RIGHT,
  BRUTE_HANG,     /* no actor can move and not all ranks are done */
  BRUTE_LEFTOVER, /* a message or signal was not received */
  BRUTE_SIZE,     /* a message and its receive differ in bytes */
  BRUTE_RESULT,   /* wrong output, or different outputs on different ranks */
  BRUTE_INPUT,    /* a rank's input changed */
  BRUTE_TRESPASS, /* memory of a rank outside its call was written */
  BRUTE_FAULT_COUNT
} brute_fault_t;

typedef struct brute brute_t;

/* The plan must have passed plan_check_program, and outlive it. Aborts when out of memory. */
brute_t *brute_create(const plan_t *plan);
void brute_free(brute_t *brute);

/* Resets to the state before the call. The seed determines the poison, whether steps process their
 * chunks forwards or backwards and, if odd, FIFOs deeper than the plan states. */
void brute_reset(brute_t *brute, uint64_t seed);

/* Number of actors: the lanes of all ranks and, per rank, the caller, which enters and leaves. */
int32_t brute_actor_count(const brute_t *brute);
int32_t brute_actor_rank(const brute_t *brute, int32_t actor);

/* Moves an actor that can move by one read or write of one chunk, or one signal, entry, … */
bool brute_can_move(brute_t *brute, int32_t actor);
void brute_move(brute_t *brute, int32_t actor);

bool brute_has_failed(const brute_t *brute);

/* The fault so far. If no actor can move: the fault of the final state. */
brute_fault_t brute_judge(brute_t *brute);

const char *brute_fault_name(brute_fault_t fault);

#endif
