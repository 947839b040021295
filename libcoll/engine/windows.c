/* How SCRATCH is divided. */
#include "engine/windows.h"

#include "base/alloc.h"

#define WINDOW_BYTES_MIN 4096 /* smaller windows would be reused while another core caches them */

/* Divides SCRATCH into windows. There is only one window where no peer accesses SCRATCH, as it is
 * then best reused while cached; where a call has several passes, as these fill SCRATCH anyway; and
 * where blocks are uneven, as ranks do not know each other's counts. */
static void divide_scratch(engine_bound_t *bound, const engine_layout_t *layout,
                           size_t room_bytes) {
  size_t parts = (size_t)layout->plan->parts, chunks = (size_t)layout->plan->scratch_chunks;
  size_t needed = (chunks + parts - 1) / parts * layout->pass.count * layout->call->element_bytes;
  bool shared = layout->plan->reach == PLAN_REACH_SCRATCH;
  bool whole = layout->pass.count == layout->call->count && !engine_call_is_uneven(layout->call);
  bound->windows = 1;
  bound->window_bytes = base_round_up(needed, WINDOW_BYTES_MIN);
  if (!shared || !whole || needed < WINDOW_BYTES_MIN) return;
  if (bound->window_bytes < room_bytes) {
    bound->windows = (uint32_t)(room_bytes / bound->window_bytes);
  }
}

/* Faults in the pages of SCRATCH that the windows will use. */
static void populate_scratch(const engine_bound_t *bound, const engine_world_t *world) {
  for (size_t i = ENGINE_BASES_OWN; i < bound->base_count; i++) {
    const engine_base_t *base = &bound->bases[i];
    if (base->buffer != PLAN_SCRATCH) continue;
    base_populate(world->views[base->rank].buffers[PLAN_SCRATCH], world->room.scratch_bytes);
  }
}

void engine_windows_divide(engine_bound_t *bound, const engine_layout_t *layout,
                           const engine_world_t *world) {
  divide_scratch(bound, layout, world->room.scratch_bytes);
  if (bound->windows > 1) populate_scratch(bound, world);
}
