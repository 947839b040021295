/* Operands become pointers and go to the device. */
#include "engine/compute.h"

#include "base/inline.h"
#include "base/memory.h"

coll_status_t engine_compute_copy(const engine_run_t *run, const engine_action_t *action) {
  const engine_operand_t *operands = &run->bound->operands[action->operands];
  return run->world->device->copy(engine_address(run->bound, &operands[0], NULL),
                                  engine_address(run->bound, &operands[1], NULL), action->bytes);
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

/* What is reduced into scratch is fetched from there soon. A device that sees little of it at a
 * time leaves it in the cache. */
#define KEPT_BYTES ((size_t)512 << 10) /* of all operands */

static bool lands_in_scratch(const engine_run_t *run, const engine_action_t *action) {
  const engine_operand_t *dst = &run->bound->operands[action->operands];
  return run->bound->bases[dst->base].buffer == PLAN_SCRATCH;
}

BASE_APART static coll_status_t reduce_by_pieces(const engine_run_t *run,
                                                 const engine_action_t *action, char *places[]) {
  int dst_count = action->dst_count, count = action->operand_count;
  size_t element_bytes = run->call->element_bytes, part;
  size_t most = KEPT_BYTES / (size_t)count / BASE_CACHE_LINE * BASE_CACHE_LINE / element_bytes;
  if (most == 0) most = 1;
  for (size_t done = 0; done < action->elements; done += part) {
    part = action->elements - done < most ? action->elements - done : most;
    COLL_TRY(run->world->device->reduce((void *const *)places, dst_count,
                                        (const void *const *)places + dst_count, count - dst_count,
                                        part, run->call->dtype, run->call->op));
    for (int i = 0; i < count; i++) places[i] += part * element_bytes;
  }
  return COLL_OK;
}

/* The copies come after the reduction has read all that it reads. */
BASE_APART static coll_status_t reduce_then_copy(const engine_run_t *run,
                                                 const engine_action_t *action,
                                                 char *const places[]) {
  const device_ops_t *device = run->world->device;
  int dst_count = action->dst_count, source_count = action->operand_count - dst_count;
  COLL_TRY(device->reduce((void *const *)places, 1, (const void *const *)places + dst_count,
                          source_count, action->elements, run->call->dtype, run->call->op));
  for (int d = 1; d < dst_count; d++) {
    COLL_TRY(device->copy(places[d], places[0], action->bytes));
  }
  return COLL_OK;
}

coll_status_t engine_compute_reduce(const engine_run_t *run, const engine_action_t *action,
                                    const void *const messages[]) {
  const engine_operand_t *operands = &run->bound->operands[action->operands];
  int dst_count = action->dst_count, count = action->operand_count;
  char *places[DEVICE_DSTS_MAX + DEVICE_SOURCES_MAX]; /* destinations, then sources */
  int i = 0;
  do {
    places[i] = engine_address(run->bound, &operands[i], messages);
  } while (++i < count);
  if (dst_count > 1 && !copies_stay_clear(places, dst_count, count, action->bytes)) {
    return reduce_then_copy(run, action, places);
  }
  if (action->bytes * (size_t)count > KEPT_BYTES && lands_in_scratch(run, action)) {
    return reduce_by_pieces(run, action, places);
  }
  return run->world->device->reduce((void *const *)places, dst_count,
                                    (const void *const *)places + dst_count, count - dst_count,
                                    action->elements, run->call->dtype, run->call->op);
}
