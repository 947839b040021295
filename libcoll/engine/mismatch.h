/* The error when a message or signal of a peer belongs to a different call. */
#ifndef ENGINE_MISMATCH_H
#define ENGINE_MISMATCH_H

#include "base/inline.h"
#include "engine/call.h"
#include "engine/world.h"

/* Returns COLL_ERROR_MISMATCH with a sentence that names both ranks and calls. `own`: this rank's
 * identity as sent (engine_call_t.id, or that with the count of a pair); `found`: the peer's. */
BASE_COLD coll_status_t engine_mismatch(const engine_world_t *world, const engine_call_t *call,
                                        flight_call_t own, int peer, flight_call_t found);

#endif
