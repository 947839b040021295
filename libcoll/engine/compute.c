/* Operands become pointers and go to the device. */
#include "engine/compute.h"

#include "base/inline.h"

/* Of how many bytes of the call the action stores a part, for the device. What goes to scratch is
 * fetched from there at once, and a plan of messages may send what it has stored. */
static size_t whole_of(const engine_run_t *run, const engine_action_t *action) {
  const engine_bound_t *bound = &run->bound;
  uint32_t dst = bound->operands[action->operands].base;
  if (bound->bases[dst].buffer == PLAN_SCRATCH) return 0;
  if (run->pass.count == run->call->count || bound->plan->reach == PLAN_REACH_OWN) {
    return action->bytes;
  }
  return action->bytes * (run->call->count / run->pass.count);
}

coll_status_t engine_compute_copy(const engine_run_t *run, const engine_action_t *action) {
  const engine_operand_t *operands = &run->bound.operands[action->operands];
  return run->world->device->copy(engine_address(&run->bound, &operands[0], NULL),
                                  engine_address(&run->bound, &operands[1], NULL), action->bytes,
                                  whole_of(run, action));
}

static bool clash(const char *a, const char *b, size_t bytes) {
  return a != b && a < b + bytes && b < a + bytes;
}

/* Whether the places the result is copied to, [1, dst_count) of them all, are each equal to or
 * apart from all else, as the device asks. */
static bool copies_stay_clear(char *const places[], int dst_count, int count, size_t bytes) {
  for (int d = 1; d < dst_count; d++) {
    for (int other = 0; other < count; other++) {
      if (clash(places[d], places[other], bytes)) return false;
    }
  }
  return true;
}

/* The copies come after the reduction has read all that it reads. */
BASE_APART static coll_status_t reduce_then_copy(const engine_run_t *run,
                                                 const engine_action_t *action,
                                                 char *const places[]) {
  const device_ops_t *device = run->world->device;
  int dst_count = action->dst_count, source_count = action->operand_count - dst_count;
  size_t whole = whole_of(run, action);
  COLL_TRY(device->reduce((void *const *)places, 1, (const void *const *)places + dst_count,
                          source_count, action->elements, run->call->dtype, run->call->op, whole));
  for (int d = 1; d < dst_count; d++) {
    COLL_TRY(device->copy(places[d], places[0], action->bytes, whole));
  }
  return COLL_OK;
}

coll_status_t engine_compute_reduce(const engine_run_t *run, const engine_action_t *action,
                                    const void *const messages[]) {
  const engine_operand_t *operands = &run->bound.operands[action->operands];
  int dst_count = action->dst_count, count = action->operand_count;
  char *places[DEVICE_DSTS_MAX + DEVICE_SOURCES_MAX]; /* destinations, then sources */
  int i = 0;
  do {
    places[i] = engine_address(&run->bound, &operands[i], messages);
  } while (++i < count);
  if (dst_count > 1 && !copies_stay_clear(places, dst_count, count, action->bytes)) {
    return reduce_then_copy(run, action, places);
  }
  return run->world->device->reduce(
      (void *const *)places, dst_count, (const void *const *)places + dst_count, count - dst_count,
      action->elements, run->call->dtype, run->call->op, whole_of(run, action));
}
