/*
 * An interpreter of plans by brute force, to hold the verifier against: it runs a plan on concrete
 * numbers, chunk by chunk, reading and writing apart, in whatever order it is told to, and looks at
 * what comes out. It reasons about nothing and shares no code with the verifier.
 *
 * Ranks enter their call at any time and leave it when their lanes are done; outside of it their
 * memory holds poison. Every FIFO may hold as many messages as the plan states, or more.
 */
#ifndef VERIFY_TEST_BRUTE_H
#define VERIFY_TEST_BRUTE_H

#include "plan/plan.h"

/* What a schedule brought to light. */
typedef enum brute_fault {
  BRUTE_RIGHT,
  BRUTE_HANG,     /* nothing can move and not all ranks are done */
  BRUTE_LEFTOVER, /* a message or signal that nobody took */
  BRUTE_SIZE,     /* a message and its receive differ in bytes */
  BRUTE_RESULT,   /* wrong output, or not the same on all ranks */
  BRUTE_INPUT,    /* a rank's input changed */
  BRUTE_TRESPASS, /* memory of a rank outside its call was written */
  BRUTE_FAULT_COUNT
} brute_fault_t;

typedef struct brute brute_t;

/* The plan must have passed plan_check_program, and outlive it. Aborts when out of memory. */
brute_t *brute_create(const plan_t *plan);
void brute_free(brute_t *brute);

/* Back to before the call. The seed draws the poison, whether steps go through their chunks
 * forwards or backwards, and, when odd, FIFOs deeper than the plan states. */
void brute_reset(brute_t *brute, uint64_t seed);

/* Those who take turns: the lanes of all ranks and, per rank, the caller who enters and leaves. */
int32_t brute_actor_count(const brute_t *brute);
int32_t brute_actor_rank(const brute_t *brute, int32_t actor);

/* One read or write of one chunk, or one signal, entry, ... of an actor that can move. */
bool brute_can_move(brute_t *brute, int32_t actor);
void brute_move(brute_t *brute, int32_t actor);

bool brute_has_failed(const brute_t *brute);

/* The fault met so far, or, when no actor can move, what the state they are left in comes to. */
brute_fault_t brute_judge(brute_t *brute);

const char *brute_fault_name(brute_fault_t fault);

#endif
