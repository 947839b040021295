/* The data that the steps of a plan move between ranks: messages, and what copies and reductions
 * load from or store to memory of a peer. */
#ifndef PLAN_TRANSFERS_H
#define PLAN_TRANSFERS_H

#include "plan/plan.h"

typedef struct plan_transfer {
  int32_t by; /* the rank whose step it is */
  int32_t from, to;
  int32_t chunks;
} plan_transfer_t;

/* Anything but COLL_OK ends the visit, which returns it. */
typedef coll_status_t plan_transfer_visit_t(void *context, const plan_transfer_t *transfer);

/* Visits the transfers of one step of a rank. A message belongs to its send; within a rank nothing
 * is transferred. The plan must be valid (plan_check_program). */
coll_status_t plan_visit_step(const plan_t *plan, int32_t rank, const plan_step_t *step,
                              plan_transfer_visit_t *visit, void *context);

/* Visits the transfers of all steps, rank by rank and lane by lane. */
coll_status_t plan_visit_transfers(const plan_t *plan, plan_transfer_visit_t *visit, void *context);

#endif
