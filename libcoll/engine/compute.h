/* The actions that touch memory alone: copies and reductions. */
#ifndef ENGINE_COMPUTE_H
#define ENGINE_COMPUTE_H

#include "engine/bind.h"

/* Where an operand is. message: what stands for ENGINE_BASE_MESSAGE. */
static inline char *engine_address(const engine_bound_t *bound, const engine_operand_t *operand,
                                   const void *message) {
  if (operand->base == ENGINE_BASE_MESSAGE) return (char *)(uintptr_t)message; /* never written */
  return bound->addresses[operand->base] + operand->offset;
}

coll_status_t engine_compute_copy(const engine_world_t *world, const engine_bound_t *bound,
                                  const engine_action_t *action);

/* A reduction whose message operands lie at `message`. */
coll_status_t engine_compute_reduce(const engine_world_t *world, const engine_bound_t *bound,
                                    const engine_call_t *call, const engine_action_t *action,
                                    const void *message);

#endif
