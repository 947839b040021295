/*
 * What a run uses of its communicator: the transports to the peers, the device, and the addresses
 * of each rank's buffers in this process. Filled in by the communicator; used by one call at a
 * time.
 */
#ifndef ENGINE_WORLD_H
#define ENGINE_WORLD_H

#include <stdatomic.h>

#include "device/ops.h"
#include "plan/room.h"
#include "transport/ops.h"

/* The addresses of a rank's buffers; NULL where there is none or it could not be mapped. */
typedef struct engine_view {
  char *buffers[PLAN_BUFFER_COUNT];
  bool is_remote[PLAN_BUFFER_COUNT]; /* an address in the rank's own process: only for get */
  unsigned char refused_calls; /* further calls in which neither end expects that one stores in the
                                  other's buffer (put.h); the same number at both */
} engine_view_t;

typedef struct engine_world {
  int rank, size;
  transport_t **routes;        /* [size]: the transport to each rank, including this rank */
  const topo_layout_t *layout; /* of the ranks, or NULL; lives as long as the world */
  bool gets;                   /* get of the routes can read the memory of every peer */
  size_t large_get_min; /* from this size in bytes on, a get of a large message that is not mapped
                           costs less than messages (large.h) */
  const device_ops_t *device;
  plan_room_t room;
  engine_view_t *views; /* [size]; SCRATCH of ranks of this host is always mapped; INPUT and OUTPUT
                           of peers are set by the address exchange of the current collective */
  char *packing;        /* buffer for messages of several pieces; holds a message of any size */
  bool lends;           /* memory of calls was lent to a transport (send_lent of transport/ops.h) */
  int polls; /* how often a blocked action is retried per call of engine_run_advance, where the run
                has nothing else to do; treated as at least 1 */
  /* Payload bytes that completed passes have moved between ranks (engine_bound_t.traffic). Written
   * by the run that makes progress, one at a time; read by any thread. */
  _Atomic uint64_t traffic;
} engine_world_t;

/* The transports read no memory of calls any more. */
void engine_world_return_lent(engine_world_t *world);

/* Called when a call is complete, before anything changes its memory. */
static inline void engine_world_end_loans(engine_world_t *world) {
  if (world->lends) engine_world_return_lent(world);
}

#endif
