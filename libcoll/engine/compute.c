/* The operands of reductions become pointers and go to the device. */
#include "engine/compute.h"

#include "base/inline.h"

#define FEW_SOURCES 8

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
  COLL_TRY(device->reduce((void *const *)places, 1, action->kept,
                          (const void *const *)places + dst_count, source_count, action->elements,
                          run->call->dtype, run->call->op, action->whole));
  for (int d = 1; d < dst_count; d++) {
    size_t whole = d < action->kept ? 0 : action->whole;
    COLL_TRY(device->copy(places[d], places[0], action->bytes, whole));
  }
  return COLL_OK;
}

static coll_status_t reduce_to(const engine_run_t *run, const engine_action_t *action,
                               char *const places[]) {
  int dst_count = action->dst_count, source_count = action->operand_count - dst_count;
  return run->world->device->reduce(
      (void *const *)places, dst_count, action->kept, (const void *const *)places + dst_count,
      source_count, action->elements, run->call->dtype, run->call->op, action->whole);
}

/* Apart, as its stack reaches far. */
BASE_APART static coll_status_t reduce_many(const engine_run_t *run,
                                            const engine_action_t *action) {
  int dst_count = action->dst_count, count = action->operand_count;
  char *places[DEVICE_DSTS_MAX + DEVICE_SOURCES_MAX]; /* destinations, then sources */
  for (int i = 0; i < count; i++) places[i] = engine_address(run, &action->operands[i]);
  if (dst_count > 1 && !copies_stay_clear(places, dst_count, count, action->bytes)) {
    return reduce_then_copy(run, action, places);
  }
  return reduce_to(run, action, places);
}

coll_status_t engine_compute_reduce(const engine_run_t *run, const engine_action_t *action) {
  int count = action->operand_count, i = 0;
  char *places[1 + FEW_SOURCES];
  if (action->dst_count > 1 || count > 1 + FEW_SOURCES) return reduce_many(run, action);
  do {
    places[i] = engine_address(run, &action->operands[i]);
  } while (++i < count);
  return reduce_to(run, action, places);
}
