/* The actions that touch memory alone: copies and reductions. */
#ifndef ENGINE_COMPUTE_H
#define ENGINE_COMPUTE_H

#include "engine/run.h"

/* Where an operand is. messages: what stands for ENGINE_BASE_MESSAGES. */
static inline char *engine_address(const engine_bound_t *bound, const engine_operand_t *operand,
                                   const void *const messages[]) {
  if (operand->base >= ENGINE_BASE_MESSAGES) { /* never written */
    return (char *)(uintptr_t)messages[operand->base - ENGINE_BASE_MESSAGES];
  }
  return bound->addresses[operand->base] + operand->offset;
}

coll_status_t engine_compute_copy(const engine_run_t *run, const engine_action_t *action);

/* A reduction whose message operands lie at `messages`. */
coll_status_t engine_compute_reduce(const engine_run_t *run, const engine_action_t *action,
                                    const void *const messages[]);

#endif
