/* Resolves the operands of reductions to addresses and calls the device. */
#include "engine/compute.h"

#include "base/inline.h"

#define FEW_SOURCES 8

static bool overlap_partly(const char *a, const char *b, size_t bytes) {
  return a != b && a < b + bytes && b < a + bytes;
}

/* Whether the destinations of the copies, addresses [1, dst_count), are each equal to or disjoint
 * from all other operands, as the device requires. */
static bool copies_are_disjoint(char *const addresses[], int dst_count, int count, size_t bytes) {
  for (int d = 1; d < dst_count; d++) {
    for (int other = 0; other < count; other++) {
      if (overlap_partly(addresses[d], addresses[other], bytes)) return false;
    }
  }
  return true;
}

/* For overlapping operands: reduces first, then copies the result. */
BASE_APART static coll_status_t reduce_then_copy(const engine_run_t *run,
                                                 const engine_action_t *action,
                                                 char *const addresses[]) {
  const device_ops_t *device = run->world->device;
  int dst_count = action->dst_count, source_count = action->operand_count - dst_count;
  COLL_TRY(device->reduce(
      (void *const *)addresses, 1, action->cached_dsts, (const void *const *)addresses + dst_count,
      source_count, action->elements, run->call->dtype, run->call->op, action->nontemporal_hint));
  for (int d = 1; d < dst_count; d++) {
    size_t hint = d < action->cached_dsts ? 0 : action->nontemporal_hint;
    COLL_TRY(device->copy(addresses[d], addresses[0], action->bytes, hint));
  }
  return COLL_OK;
}

static coll_status_t reduce_to(const engine_run_t *run, const engine_action_t *action,
                               char *const addresses[]) {
  int dst_count = action->dst_count, source_count = action->operand_count - dst_count;
  return run->world->device->reduce((void *const *)addresses, dst_count, action->cached_dsts,
                                    (const void *const *)addresses + dst_count, source_count,
                                    action->elements, run->call->dtype, run->call->op,
                                    action->nontemporal_hint);
}

/* Not inlined because of its large stack frame. */
BASE_APART static coll_status_t reduce_many(const engine_run_t *run,
                                            const engine_action_t *action) {
  int dst_count = action->dst_count, count = action->operand_count;
  char *addresses[DEVICE_DSTS_MAX + DEVICE_SOURCES_MAX]; /* destinations, then sources */
  for (int i = 0; i < count; i++) addresses[i] = engine_address(run, &action->operands[i]);
  if (dst_count > 1 && !copies_are_disjoint(addresses, dst_count, count, action->bytes)) {
    return reduce_then_copy(run, action, addresses);
  }
  return reduce_to(run, action, addresses);
}

coll_status_t engine_compute_reduce(const engine_run_t *run, const engine_action_t *action) {
  int count = action->operand_count, i = 0;
  char *addresses[1 + FEW_SOURCES];
  if (action->dst_count > 1 || count > 1 + FEW_SOURCES) return reduce_many(run, action);
  do {
    addresses[i] = engine_address(run, &action->operands[i]);
  } while (++i < count);
  return reduce_to(run, action, addresses);
}
