/* The windows of SCRATCH that consecutive calls use in rotation (bind.h). */
#ifndef ENGINE_WINDOWS_H
#define ENGINE_WINDOWS_H

#include "engine/bind.h"

/* Divides SCRATCH into windows for the bound pass, and faults in their pages if there are several.
 * All ranks divide alike. */
void engine_windows_divide(engine_bound_t *bound, const engine_layout_t *layout,
                           const engine_world_t *world);

#endif
