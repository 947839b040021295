/* The provider whose parameters and gradients are two arrays in memory. */
#include <assert.h>
#include <stddef.h>

#include "libtrain/model/param_provider.h"

static coll_status_t acquire(void *context, int unit, int next, const void **parameters) {
  const train_arena_t *arena = context;
  (void)next;
  *parameters =
      train_dtype_const_at(arena->dtype, arena->parameters, arena->layout->units[unit].offset);
  return COLL_OK;
}

static void release(void *context, int unit) {
  (void)context, (void)unit;
}

static coll_status_t open_gradients(void *context, int unit, float **gradients, bool *overwrite) {
  const train_arena_t *arena = context;
  assert(arena->gradients != NULL);
  *gradients = arena->gradients + arena->layout->units[unit].offset;
  *overwrite = !arena->accumulating;
  return COLL_OK;
}

static coll_status_t close_gradients(void *context, int unit) {
  train_arena_t *arena = context;
  if (unit == 0) arena->accumulating = true;
  return COLL_OK;
}

void train_arena_begin(train_arena_t *arena) {
  arena->accumulating = false;
}

train_param_provider_t train_arena_provider(train_arena_t *arena) {
  return (train_param_provider_t){.context = arena,
                                  .acquire = acquire,
                                  .release = release,
                                  .open_gradients = open_gradients,
                                  .close_gradients = close_gradients};
}
