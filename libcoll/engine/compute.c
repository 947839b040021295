/* Operands become pointers and go to the device. */
#include "engine/compute.h"

coll_status_t engine_compute_copy(const engine_world_t *world, const engine_bound_t *bound,
                                  const engine_action_t *action) {
  const engine_operand_t *operands = &bound->operands[action->operands];
  return world->device->copy(engine_address(bound, &operands[0], NULL),
                             engine_address(bound, &operands[1], NULL), action->bytes);
}

static bool clash(const char *a, const char *b, size_t bytes) {
  return a != b && a < b + bytes && b < a + bytes;
}

/* Whether the places the result is copied to are each equal to or apart from all else, as the
 * device asks. */
static bool copies_stay_clear(char *const dsts[], int dst_count, const void *const sources[],
                              int source_count, size_t bytes) {
  for (int d = 1; d < dst_count; d++) {
    for (int s = 0; s < source_count; s++) {
      if (clash(dsts[d], sources[s], bytes)) return false;
    }
    for (int other = 0; other < d; other++) {
      if (clash(dsts[d], dsts[other], bytes)) return false;
    }
  }
  return true;
}

coll_status_t engine_compute_reduce(const engine_world_t *world, const engine_bound_t *bound,
                                    const engine_call_t *call, const engine_action_t *action,
                                    const void *const messages[]) {
  const device_ops_t *device = world->device;
  const engine_operand_t *operands = &bound->operands[action->operands];
  int dst_count = action->dst_count, source_count = action->operand_count - dst_count;
  char *dsts[DEVICE_DSTS_MAX];
  const void *sources[DEVICE_SOURCES_MAX];
  for (int d = 0; d < dst_count; d++) dsts[d] = engine_address(bound, &operands[d], messages);
  for (int s = 0; s < source_count; s++) {
    sources[s] = engine_address(bound, &operands[dst_count + s], messages);
  }
  if (dst_count == 1 || copies_stay_clear(dsts, dst_count, sources, source_count, action->bytes)) {
    return device->reduce((void *const *)dsts, dst_count, sources, source_count, action->elements,
                          call->dtype, call->op);
  }
  /* The copies come after the reduction has read all that it reads. */
  COLL_TRY(device->reduce((void *const *)dsts, 1, sources, source_count, action->elements,
                          call->dtype, call->op));
  for (int d = 1; d < dst_count; d++) COLL_TRY(device->copy(dsts[d], dsts[0], action->bytes));
  return COLL_OK;
}
