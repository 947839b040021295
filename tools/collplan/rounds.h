/* The rounds of a plan, as papers count them. */
#ifndef COLLPLAN_ROUNDS_H
#define COLLPLAN_ROUNDS_H

#include "sim/sim.h"

/* Each lane of a rank can send one message and receive one at the same time, each takes one unit of
 * time, and so does a signal, of which a lane can send any number at once. No message waits for
 * room in a FIFO. */
typedef struct rounds {
  sim_t sim;     /* has run */
  int64_t *done; /* [sim.count]: when a message or signal arrives; of other steps, when the lane's
                    last receive or wait was complete */
  int64_t last;  /* receive or wait */
} rounds_t;

/* The plan must outlive the rounds. COLL_ERROR_INVALID for a plan that deadlocks. */
coll_status_t rounds_create(const plan_t *plan, rounds_t *rounds);
void rounds_free(rounds_t *rounds);

#endif
