/* The events of a simulation (link_sim.h) in order of time: a heap. */
#ifndef TUNE_LINK_EVENTS_H
#define TUNE_LINK_EVENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct tune_event {
  uint64_t time_ps;
  bool is_queued; /* for a core: behind other events of that time */
  size_t lane;
} tune_event_t;

typedef struct tune_events {
  tune_event_t *heap; /* with room for all events; the caller's */
  size_t count;
} tune_events_t;

void tune_events_push(tune_events_t *events, tune_event_t event);
tune_event_t tune_events_pop(tune_events_t *events); /* the first; there is one */

#endif
