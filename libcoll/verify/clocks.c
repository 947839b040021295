/* Reference-counted vectors, allocated from a pool. */
#include "verify/clocks.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

void verify_clocks_init(size_t width, verify_clocks_t *clocks) {
  *clocks = (verify_clocks_t){.width = width};
}

void verify_clocks_free(verify_clocks_t *clocks) {
  for (size_t i = 0; i < clocks->count; i++) free(clocks->all[i]);
  free(clocks->all);
  free(clocks->unused);
}

/* Returns a clock with one reference and undefined counts. */
static coll_status_t acquire_clock(verify_clocks_t *clocks, verify_clock_t **clock) {
  if (clocks->unused_count == 0) {
    size_t unused_capacity = clocks->capacity, needed = clocks->count + 1;
    COLL_TRY(base_grow((void **)&clocks->unused, &unused_capacity, needed, sizeof *clocks->unused,
                       "vector clocks"));
    COLL_TRY(base_grow((void **)&clocks->all, &clocks->capacity, needed, sizeof *clocks->all,
                       "vector clocks"));
    verify_clock_t *made = NULL;
    COLL_TRY(base_alloc(1, sizeof *made + clocks->width * sizeof made->counts[0], "a vector clock",
                        (void **)&made));
    clocks->all[clocks->count++] = made;
    clocks->unused[clocks->unused_count++] = made;
  }
  *clock = clocks->unused[--clocks->unused_count];
  (*clock)->references = 1;
  return COLL_OK;
}

static void release_clock(verify_clocks_t *clocks, verify_clock_t *clock) {
  if (--clock->references == 0) clocks->unused[clocks->unused_count++] = clock;
}

coll_status_t verify_view_create(verify_clocks_t *clocks, uint32_t lane, verify_view_t *view) {
  verify_clock_t *seen = NULL;
  COLL_TRY(acquire_clock(clocks, &seen));
  memset(seen->counts, 0, clocks->width * sizeof seen->counts[0]);
  *view = (verify_view_t){.now = {.lane = lane, .count = 1}, .seen = seen};
  return COLL_OK;
}

verify_view_t verify_view_release(verify_view_t *view) {
  verify_view_t released = *view;
  view->seen->references++;
  view->now.count++;
  return released;
}

/* Gives the view a clock of its unshare before a change (copy on write). */
static coll_status_t unshare(verify_clocks_t *clocks, verify_view_t *view) {
  if (view->seen->references == 1) return COLL_OK;
  verify_clock_t *copy = NULL;
  COLL_TRY(acquire_clock(clocks, &copy));
  memcpy(copy->counts, view->seen->counts, clocks->width * sizeof copy->counts[0]);
  release_clock(clocks, view->seen);
  view->seen = copy;
  return COLL_OK;
}

coll_status_t verify_view_acquire(verify_clocks_t *clocks, verify_view_t *view,
                                  const verify_view_t *other) {
  COLL_TRY(verify_view_see(clocks, view, other->now));
  if (view->seen == other->seen) return COLL_OK;
  const uint32_t *others = other->seen->counts;
  size_t first_newer = 0;
  while (first_newer < clocks->width && others[first_newer] <= view->seen->counts[first_newer]) {
    first_newer++;
  }
  if (first_newer == clocks->width) return COLL_OK;
  COLL_TRY(unshare(clocks, view));
  uint32_t *counts = view->seen->counts;
  for (size_t i = first_newer; i < clocks->width; i++) {
    counts[i] = counts[i] > others[i] ? counts[i] : others[i];
  }
  return COLL_OK;
}

coll_status_t verify_view_see(verify_clocks_t *clocks, verify_view_t *view, verify_epoch_t epoch) {
  if (verify_view_covers(view, epoch)) return COLL_OK;
  COLL_TRY(unshare(clocks, view));
  view->seen->counts[epoch.lane] = epoch.count;
  return COLL_OK;
}

void verify_view_drop(verify_clocks_t *clocks, verify_view_t *view) {
  if (view->seen != NULL) release_clock(clocks, view->seen);
  view->seen = NULL;
}
