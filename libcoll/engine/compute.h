/* Actions on memory alone: copies and reductions. */
#ifndef ENGINE_COMPUTE_H
#define ENGINE_COMPUTE_H

#include "base/inline.h"
#include "engine/state.h"

BASE_INLINE char *engine_address(const engine_run_t *run, const engine_operand_t *operand) {
  return run->bound.addresses[operand->base] + operand->offset;
}

BASE_INLINE coll_status_t engine_compute_copy(const engine_run_t *run,
                                              const engine_action_t *action) {
  return run->world->device->copy(engine_address(run, &action->operands[0]),
                                  engine_address(run, &action->operands[1]), action->bytes,
                                  action->nontemporal_hint);
}

coll_status_t engine_compute_reduce(const engine_run_t *run, const engine_action_t *action);

#endif
