/*
 * Vector clocks: which events of other lanes a lane has seen. Lanes are numbered through all ranks.
 * A clock is shared by everything that has seen the same, and copied only when one of them learns
 * more, so that a lane which signals 255 peers in a row keeps one vector, not 255.
 */
#ifndef VERIFY_CLOCKS_H
#define VERIFY_CLOCKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

typedef struct verify_clock {
  uint32_t references;
  uint32_t counts[]; /* per lane: its events up to this one have been seen */
} verify_clock_t;

/* Owns every clock of a run. */
typedef struct verify_clocks {
  size_t width;                   /* lanes of all ranks */
  verify_clock_t **all, **spare;  /* spare: those with no references */
  size_t count, capacity, spares; /* spare[] has the capacity of all[] */
} verify_clocks_t;

/* One event of one lane. */
typedef struct verify_epoch {
  uint32_t lane, count;
} verify_epoch_t;

/* What a lane has seen: its own events up to `now`, and of the others what *seen says. */
typedef struct verify_view {
  verify_epoch_t now;
  verify_clock_t *seen;
} verify_view_t;

void verify_clocks_init(size_t width, verify_clocks_t *clocks);
void verify_clocks_free(verify_clocks_t *clocks);

/* A view that has seen nothing but its own first event. */
coll_status_t verify_view_create(verify_clocks_t *clocks, uint32_t lane, verify_view_t *view);

/* Whether what happened at `epoch` is ordered before the view's next step. */
static inline bool verify_view_covers(const verify_view_t *view, verify_epoch_t epoch) {
  return epoch.lane == view->now.lane || epoch.count <= view->seen->counts[epoch.lane];
}

/* Release: a copy of the view to be acquired elsewhere; later events of this lane are not in it.
 * Holds a reference until verify_view_drop. */
verify_view_t verify_view_release(verify_view_t *view);

/* Acquire: `view` sees all that `other` did. */
coll_status_t verify_view_acquire(verify_clocks_t *clocks, verify_view_t *view,
                                  const verify_view_t *other);

/* Acquire of a single event. */
coll_status_t verify_view_see(verify_clocks_t *clocks, verify_view_t *view, verify_epoch_t epoch);

void verify_view_drop(verify_clocks_t *clocks, verify_view_t *view);

#endif
