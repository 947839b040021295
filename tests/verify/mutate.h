/* Mutations of plans: one changed step or header field, chosen by a seeded generator. */
#ifndef VERIFY_TEST_MUTATE_H
#define VERIFY_TEST_MUTATE_H

#include "plan/plan.h"

typedef enum mutation {
  MUTATION_DROP,       /* a step is left out */
  MUTATION_DROP_ORDER, /* a signal, a wait or an after is left out */
  MUTATION_DUPLICATE,  /* a step is done twice */
  MUTATION_SWAP,       /* two neighbours change places */
  MUTATION_MOVE,       /* a step moves to another position in its lane */
  MUTATION_OTHER_LANE, /* a step moves to the other lane */
  MUTATION_PEER,       /* another peer */
  MUTATION_SHIFT,      /* a span starts elsewhere */
  MUTATION_RESIZE,     /* the spans of a step get longer or shorter */
  MUTATION_BUFFER,     /* a span names another buffer */
  MUTATION_RANK,       /* a span names another rank */
  MUTATION_SOURCES,    /* a reduction has one source more or less, or another order */
  MUTATION_AFTER,      /* an after names another step */
  MUTATION_DEPTH,      /* the header states a smaller FIFO depth */
  MUTATION_CLAIM,      /* the header states a stricter order of reductions */
  MUTATION_KIND_COUNT
} mutation_t;

plan_t *mutate_clone(const plan_t *plan);

/* Mutates the plan; false when the mutation does not apply. The result may be malformed, and is
 * sometimes still correct. */
bool mutate(plan_t *plan, mutation_t mutation, uint64_t *random);

const char *mutation_name(mutation_t mutation);

#endif
