/*
 * Which steps of a lane are carried out together, as one action: decided here alone, for whoever
 * carries out plans and for the tuner, which counts actions.
 *
 *   copies      A reduction and the copies of its result that directly follow it: the result is
 *               stored to every destination while it is in the cache.
 *   messages    RECVs into scratch whose data nothing but the reduction behind them reads: it reads
 *               them where the transport has them.
 *   multicast   The sends of a row: one message.
 */
#ifndef PLAN_FUSE_H
#define PLAN_FUSE_H

#include "plan/plan.h"

#define PLAN_FUSE_DSTS_MAX 64 /* destinations of a reduction on the host */

/* What can be carried out at once. */
typedef struct plan_capabilities {
  int32_t dsts_max;     /* destinations of an action, */
  int32_t operands_max; /* and these and its sources */
  bool copies;          /* copies behind a copy join it, too: those of its source and its result */
  bool pulls;   /* so do those behind a reduction that reads peers' INPUT or OUTPUT in a plan
                   of PLAN_REACH_READ, which may have to be fetched block by block */
  bool watched; /* so do those that another lane waits for */
  /* Whether messages from the peer can be read where the transport has them; NULL: none. Up to
   * PLAN_FIFO_DEPTH stay there. */
  bool (*peeks)(const void *context, int32_t peer);
  const void *context;
  bool splits[PLAN_BUFFER_COUNT]; /* where chunks of different blocks do not lie side by side */
} plan_capabilities_t;

/* Those of the host's engine with a transport that lets all messages be read, in a call of one pass
 * and blocks of equal size. */
extern const plan_capabilities_t plan_host_capabilities;

/* Those of the GPU kernel, which looks up the destinations and sources of an action together, notes
 * the end of each step that another lane waits for, and reads all messages into their place. */
#define PLAN_FUSE_GPU_OPERANDS_MAX 128
extern const plan_capabilities_t plan_gpu_capabilities;

/* Steps [first, end) of a lane: one action. */
typedef struct plan_fused {
  uint32_t first, end;
  uint32_t reduction; /* the step that reduces; of a row, a copy or a single step: `end`. The steps
                         before it are RECVs whose messages it reads in place */
} plan_fused_t;

/* The action that begins with the step of this lane of the rank's program. */
plan_fused_t plan_fuse(const plan_t *plan, const plan_program_t *program, int32_t rank,
                       int32_t lane, size_t step, const plan_capabilities_t *can);

/* Whether the step, a RECV of the action, is read in place by its reduction. */
static inline bool plan_fused_reads(const plan_fused_t *fused, size_t step) {
  return fused->reduction < fused->end && step < fused->reduction;
}

#endif
