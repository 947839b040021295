/*
 * Vector clocks: for each lane, which events of other lanes happened before its next step. Lanes
 * are numbered across all ranks. Views with equal contents share one clock, which is copied only
 * when one of them changes, so a lane that signals 255 peers in a row uses one vector, not 255.
 */
#ifndef VERIFY_CLOCKS_H
#define VERIFY_CLOCKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

typedef struct verify_clock {
  uint32_t references;
  uint32_t counts[]; /* per lane: events up to this number have been observed */
} verify_clock_t;

/* Owns all clocks of a run. */
typedef struct verify_clocks {
  size_t width;                         /* lanes of all ranks */
  verify_clock_t **all, **unused;       /* unused: clocks without references */
  size_t count, capacity, unused_count; /* unused[] has the capacity of all[] */
} verify_clocks_t;

/* One event of one lane. */
typedef struct verify_epoch {
  uint32_t lane, count;
} verify_epoch_t;

/* The events that a lane has observed: its own up to `now`, and those of other lanes in *seen. */
typedef struct verify_view {
  verify_epoch_t now;
  verify_clock_t *seen;
} verify_view_t;

void verify_clocks_init(size_t width, verify_clocks_t *clocks);
void verify_clocks_free(verify_clocks_t *clocks);

/* Creates a view that has observed only its own first event. */
coll_status_t verify_view_create(verify_clocks_t *clocks, uint32_t lane, verify_view_t *view);

/* Whether the event `epoch` is ordered before the view's next step. */
static inline bool verify_view_covers(const verify_view_t *view, verify_epoch_t epoch) {
  return epoch.lane == view->now.lane || epoch.count <= view->seen->counts[epoch.lane];
}

/* Release: returns a copy of the view, to be acquired by another lane. Later events of this lane
 * are not in it. Holds a reference until verify_view_drop. */
verify_view_t verify_view_release(verify_view_t *view);

/* Acquire: `view` then includes all events that `other` includes. */
coll_status_t verify_view_acquire(verify_clocks_t *clocks, verify_view_t *view,
                                  const verify_view_t *other);

/* Acquire of a single event. */
coll_status_t verify_view_see(verify_clocks_t *clocks, verify_view_t *view, verify_epoch_t epoch);

void verify_view_drop(verify_clocks_t *clocks, verify_view_t *view);

#endif
