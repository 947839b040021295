/* A binary heap, with the earliest event first. */
#include "tune/link_events.h"

static bool is_before(const tune_event_t *a, const tune_event_t *b) {
  if (a->time_ps != b->time_ps) return a->time_ps < b->time_ps;
  return a->is_queued != b->is_queued ? b->is_queued : a->lane < b->lane;
}

void tune_events_push(tune_events_t *events, tune_event_t event) {
  tune_event_t *heap = events->heap;
  size_t at = events->count++;
  for (; at > 0 && is_before(&event, &heap[(at - 1) / 2]); at = (at - 1) / 2) {
    heap[at] = heap[(at - 1) / 2];
  }
  heap[at] = event;
}

tune_event_t tune_events_pop(tune_events_t *events) {
  tune_event_t *heap = events->heap, top = heap[0], last = heap[--events->count];
  size_t at = 0, count = events->count;
  for (size_t child = 1; child < count; child = 2 * at + 1) {
    if (child + 1 < count && is_before(&heap[child + 1], &heap[child])) child++;
    if (!is_before(&heap[child], &last)) break;
    heap[at] = heap[child];
    at = child;
  }
  heap[at] = last;
  return top;
}
