/*
 * Vector clocks: for each lane, which events of other lanes happened before its next step. Lanes
 * are numbered across all ranks.
 *
 * A clock is a tree of nodes with a reference count each, so that clocks share the parts in which
 * they are equal: a copy costs one reference, a change of one count costs one node per level. A
 * plan may keep ranks^2 signals in flight, each with its own clock, which differs from the one
 * before it in one count. (Driscoll, Sarnak, Sleator & Tarjan, Making data structures persistent,
 * 1989.)
 */
#ifndef VERIFY_CLOCKS_H
#define VERIFY_CLOCKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

#define VERIFY_CLOCK_LANES_LOG 4 /* lanes of a leaf */
#define VERIFY_CLOCK_PARTS_LOG 3 /* nodes below an inner node */

/* A node of a clock and all nodes below it. The clock of its root. NULL: all its counts are 0. */
typedef struct verify_clock {
  uint32_t references;
  uint32_t height; /* 0: a leaf */
  union {
    uint32_t counts[1 << VERIFY_CLOCK_LANES_LOG]; /* per lane: events up to this number have been
                                                     observed */
    struct verify_clock *parts[1 << VERIFY_CLOCK_PARTS_LOG];
  };
} verify_clock_t;

/* Owns all nodes of a run. */
typedef struct verify_clocks {
  bool are_kept;          /* whether views observe events of other lanes at all */
  uint32_t height;        /* of every clock's root */
  size_t nodes_most;      /* nodes of a clock without shared or missing parts */
  verify_clock_t *unused; /* list of nodes without references, linked by parts[0] */
  size_t unused_count;
  verify_clock_t **slabs; /* arrays of nodes */
  size_t slab_count, slab_capacity, node_count;
} verify_clocks_t;

#define VERIFY_NO_LANE UINT32_MAX

/* One event of one lane. */
typedef struct verify_epoch {
  uint32_t lane, count;
} verify_epoch_t;

/* The events that a lane has observed: its own up to `now`, and those of other lanes in *seen. The
 * number of its events grows only with the first access or acquire after a release, so that all
 * signals of a row are one event. */
typedef struct verify_view {
  verify_epoch_t now;
  bool is_released; /* the event `now` is complete */
  verify_clock_t *seen;
} verify_view_t;

/* For clocks of `width` lanes. If they are not kept, views observe no event of another lane. That
 * suffices where no access of one lane is ever compared with one of another, and can only reject
 * more: an order that is not observed does not excuse an access. */
void verify_clocks_init(size_t width, bool are_kept, verify_clocks_t *clocks);
void verify_clocks_free(verify_clocks_t *clocks);

/* A view that has observed only its own first event. */
static inline verify_view_t verify_view_create(uint32_t lane) {
  return (verify_view_t){.now = {.lane = lane, .count = 1}};
}

/* A copy of the view, for another lane. Holds a reference until verify_view_drop. */
verify_view_t verify_view_copy(const verify_view_t *view, uint32_t lane);

/* The count of a lane in a clock. */
static inline uint32_t verify_clock_count(const verify_clock_t *clock, uint32_t lane) {
  while (clock != NULL && clock->height > 0) {
    uint32_t shift = VERIFY_CLOCK_LANES_LOG + VERIFY_CLOCK_PARTS_LOG * (clock->height - 1);
    clock = clock->parts[(lane >> shift) % (1 << VERIFY_CLOCK_PARTS_LOG)];
  }
  return clock != NULL ? clock->counts[lane % (1 << VERIFY_CLOCK_LANES_LOG)] : 0;
}

/* Whether the event `epoch` is ordered before the view's next step. */
static inline bool verify_view_covers(const verify_view_t *view, verify_epoch_t epoch) {
  return epoch.lane == view->now.lane || epoch.count <= verify_clock_count(view->seen, epoch.lane);
}

/* Before an access or an acquire: begins a new event if the last one was released. */
static inline void verify_view_advance(verify_view_t *view) {
  if (view->is_released) view->now.count++;
  view->is_released = false;
}

/* Release: returns a copy of the view, to be acquired by another lane. Later events of this lane
 * are not in it. Holds a reference until verify_view_drop. */
verify_view_t verify_view_release(verify_view_t *view);

/* Acquire: `view` then includes all events that `other`, a view that was released, includes. */
coll_status_t verify_view_acquire(verify_clocks_t *clocks, verify_view_t *view,
                                  const verify_view_t *other);

/* Acquire of a single event. */
coll_status_t verify_view_see(verify_clocks_t *clocks, verify_view_t *view, verify_epoch_t epoch);

void verify_view_drop(verify_clocks_t *clocks, verify_view_t *view);

#endif
