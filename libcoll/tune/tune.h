/*
 * Chooses the algorithm of a call: the price of each possible one is estimated from what its plan
 * consists of (profile.h) and what that costs on this machine (machine.h), and the cheapest is
 * chosen. Everything is computed in integers from data that all ranks share, so all ranks make the
 * same choice without communication.
 */
#ifndef TUNE_TUNE_H
#define TUNE_TUNE_H

#include "tune/machine.h"
#include "tune/profile.h"

/* The reduction order that a call requires (plan_order_t). */
typedef enum tune_order {
  TUNE_ORDER_ANY,
  TUNE_ORDER_PREFER_EXACT, /* any, but an exact plan if its price is about equal */
  TUNE_ORDER_CANONICAL,
  TUNE_ORDER_EXACT,
  TUNE_ORDER_COUNT
} tune_order_t;

/* The order that a call requires. Integer operations are associative, so any order is allowed.
 * Floats require the canonical order if the communicator is reproducible, also for MIN and MAX,
 * whose result for zeros of either sign depends on the order; narrow floats require an exact plan,
 * as they must not be rounded in between. If it is not reproducible, narrow sums and products
 * prefer an exact plan. An average of narrow floats requires one, as partial sums of them overflow,
 * and partial averages underflow; other floats prefer it, as it needs no pass over the operands
 * before it. op: builtin, or a sum of scaled operands. */
tune_order_t tune_order_of(coll_collective_t collective, coll_dtype_t dtype, coll_op_t op,
                           bool reproducible);

typedef struct tune_call {
  coll_collective_t collective;
  size_t bytes;         /* of a block: count * element size */
  size_t element_bytes; /* >= 1 */
  int size;             /* ranks */
  int cores;            /* cores that the ranks share; >= 1 */
  bool bound;           /* the first and the last rank are bound to different cores */
  plan_reach_t reach;   /* the largest reach that the mapped memory allows */
  tune_order_t order;
  plan_room_t room;
  int slices; /* parts of every block that run at once, each a series of passes of its own: their
                 steps take as long as those of one, their bytes share the memory. 0: as 1 */
} tune_call_t;

/* The terms of a call's price. */
typedef enum tune_term {
  TUNE_TERM_CALL,
  TUNE_TERM_ENTRY,    /* the address exchange */
  TUNE_TERM_HOPS,     /* latency of one rank waiting for another */
  TUNE_TERM_MESSAGES, /* messages and signals, without their bytes */
  TUNE_TERM_STEPS,    /* copies and reductions, without their bytes */
  TUNE_TERM_OWN,      /* bytes of a rank's own memory */
  TUNE_TERM_FAR,      /* bytes of peers' user memory */
  TUNE_TERM_SHARED,   /* bytes through slots and shared scratch */
  TUNE_TERM_LINKS,    /* the way of data over links between ranks, and waiting for links */
  TUNE_TERM_COUNT
} tune_term_t;

/* The wire of the layout's fabric (topo/fabric.h) that is busy for longest during a call. */
typedef struct tune_bottleneck {
  int32_t wire; /* -1: none is used */
  uint64_t bytes, busy_ps;
} tune_bottleneck_t;

typedef struct tune_estimate {
  tune_verdict_t verdict; /* the rest is 0 unless the algorithm is possible */
  uint64_t passes;
  uint64_t term_ps[TUNE_TERM_COUNT];
  uint64_t total_ps;            /* their sum */
  tune_bottleneck_t bottleneck; /* where the layout has a fabric */
} tune_estimate_t;

/* Where the profile's layout has a fabric, the estimate is of one call that all ranks start at
 * once: simulated (link_sim.h) if the plan has at most TUNE_SIMULATED_MAX steps, divided by the
 * ranks per core, which takes a few ms, else by rounds (link_rounds.h). Without a fabric it is what
 * the call adds to a sequence of such calls. Fails only for lack of memory, or if links are
 * missing. */
#define TUNE_SIMULATED_MAX (1 << 16)
coll_status_t tune_estimate(const tune_machine_t *machine, const tune_profile_t *profile,
                            const tune_call_t *call, tune_estimate_t *estimate);

/* Estimates are accurate to a few percent. Among plans whose price exceeds the lowest by at most
 * 1/TUNE_AS_GOOD, the one with the fewest steps is chosen; with oversubscription, the one with the
 * fewest hops. Where context switches were simulated (sched_sim.h), estimates are more accurate and
 * the bound is tighter. */
#define TUNE_AS_GOOD 24
#define TUNE_AS_GOOD_SIMULATED 64

/* *best: index of the best profile in this sense, the first among equals; -1 if none is possible.
 */
coll_status_t tune_choose(const tune_machine_t *machine, const tune_profile_t profiles[], int count,
                          const tune_call_t *call, int *best);

/* The same, of estimates that were made before. */
int tune_choose_of(const tune_profile_t profiles[], const tune_estimate_t estimates[], int count,
                   const tune_call_t *call);

/* Whether a plan that states the order `stated` may serve calls that require `order`. */
bool tune_order_allows(tune_order_t order, plan_order_t stated);

const char *tune_term_name(tune_term_t term); /* "hops" */

#endif
