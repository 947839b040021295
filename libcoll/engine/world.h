/*
 * What a run needs of its communicator: the ways to the peers, the device, and where each rank's
 * buffers are as seen from here. Filled by the communicator; one call at a time uses it.
 */
#ifndef ENGINE_WORLD_H
#define ENGINE_WORLD_H

#include "device/ops.h"
#include "plan/room.h"
#include "transport/ops.h"

/* A rank's buffers in this address space; NULL where they are not mapped here. */
typedef struct engine_view {
  char *buffers[PLAN_BUFFER_COUNT];
} engine_view_t;

typedef struct engine_world {
  int rank, size;
  transport_t **routes; /* [size]: the way to each rank, itself included */
  const device_ops_t *device;
  plan_room_t room;
  engine_view_t *views; /* [size]; SCRATCH of all ranks, always mapped; INPUT and OUTPUT of peers,
                           by the handshake of the collective under way */
  char *packing;        /* for messages gathered from several places: room for any */
  int looks; /* how often to look in one go at a peer that is not ready, where nothing else is at
                hand; at least 1 is made */
} engine_world_t;

#endif
