/*
 * Which algorithm carries out a call: each one that can is priced, by what its plan is made of
 * (profile.h) and what that costs on this machine (machine.h), and the cheapest is taken. Pure code
 * over what every rank knows alike, in whole numbers, so that all ranks choose the same without
 * talking.
 */
#ifndef TUNE_TUNE_H
#define TUNE_TUNE_H

#include "tune/machine.h"
#include "tune/profile.h"

/* In which order a call may be reduced (plan_order_t). */
typedef enum tune_order {
  TUNE_ORDER_ANY,
  TUNE_ORDER_PREFER_EXACT, /* any, but an exact plan where it is as good as others */
  TUNE_ORDER_CANONICAL,
  TUNE_ORDER_EXACT
} tune_order_t;

/* What a call asks for. Integers, whose operations are associative, are served by any order.
 * Floats: by the canonical one where the communicator is reproducible, also for MIN and MAX, which
 * tell zeros of either sign apart by their order; and narrow floats by an exact one, as they are
 * not to be rounded on the way. Without that, narrow sums and products prefer it. op: builtin, or
 * a sum of scaled operands. */
tune_order_t tune_order_of(coll_collective_t collective, coll_dtype_t dtype, coll_op_t op,
                           bool reproducible);

typedef struct tune_call {
  coll_collective_t collective;
  size_t bytes;         /* of a block: count * element size */
  size_t element_bytes; /* >= 1 */
  int size;             /* ranks */
  int cores;            /* that they share; >= 1 */
  bool bound;           /* the first and the last rank cannot be on the same core */
  plan_reach_t reach;   /* the furthest that the memory at hand allows */
  tune_order_t order;
  plan_room_t room;
} tune_call_t;

typedef enum tune_verdict {
  TUNE_POSSIBLE,
  TUNE_TOO_FAR,    /* the plan reaches further than the memory at hand allows */
  TUNE_NO_ROOM,    /* messages or scratch have no room for a single element of its chunks */
  TUNE_OTHER_ORDER /* the plan reduces in an order that the call does not allow */
} tune_verdict_t;

/* What the price of a call is made of. */
typedef enum tune_term {
  TUNE_TERM_CALL,
  TUNE_TERM_ENTRY,    /* the ranks tell each other where their buffers are */
  TUNE_TERM_HOPS,     /* one rank waits for another */
  TUNE_TERM_MESSAGES, /* and signals, without their bytes */
  TUNE_TERM_STEPS,    /* copies and reductions, without their bytes */
  TUNE_TERM_OWN,      /* bytes of a rank's own memory */
  TUNE_TERM_FAR,      /* of peers' users' memory */
  TUNE_TERM_SHARED,   /* through slots and scratch */
  TUNE_TERM_COUNT
} tune_term_t;

typedef struct tune_estimate {
  tune_verdict_t verdict; /* the rest is 0 unless the algorithm is possible */
  uint64_t passes;
  uint64_t term_ps[TUNE_TERM_COUNT];
  uint64_t total_ps; /* their sum */
} tune_estimate_t;

tune_estimate_t tune_estimate(const tune_machine_t *machine, const tune_profile_t *profile,
                              const tune_call_t *call);

/* Prices are right to some percent. Of those that exceed the least by no more than this part of it,
 * the one with the fewest steps is taken; where ranks share cores, the one with the fewest hops.
 * Where turns were counted (turns.h), they tell nearly all. */
#define TUNE_AS_GOOD 24
#define TUNE_AS_GOOD_SIMULATED 64

/* Index of the cheapest profile, in this sense, and the first among equals; -1 where none is
 * possible. */
int tune_choose(const tune_machine_t *machine, const tune_profile_t profiles[], int count,
                const tune_call_t *call);

/* Whether plans that state `stated` may serve calls that ask for `order`. */
bool tune_order_allows(tune_order_t order, plan_order_t stated);

const char *tune_term_name(tune_term_t term); /* "hops" */

#endif
