/* Each thread has a pointer to what cancels its waits. */
#include "base/cancel.h"

#include <stddef.h>

static _Thread_local const base_cancel_t *watched;

const base_cancel_t *base_cancel_watch(const base_cancel_t *cancel) {
  const base_cancel_t *former = watched;
  watched = cancel;
  return former;
}

bool base_cancel_is_possible(void) {
  return watched != NULL;
}

/* acquire: the text is visible */
bool base_cancel_is_requested(void) {
  return watched != NULL && atomic_load_explicit(&watched->requested, memory_order_acquire);
}

const char *base_cancel_why(void) {
  return base_cancel_is_requested() ? watched->why : "";
}
