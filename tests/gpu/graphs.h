/*
 * Scenes of captured calls among other calls of their communicator, on two streams that nothing
 * else orders.
 */
#ifndef TESTS_GPU_GRAPHS_H
#define TESTS_GPU_GRAPHS_H

#include "device/cuda/driver.h"
#include "harness/party.h"

typedef struct graphs_side {
  const cuda_driver_t *driver;
  int device, size;
  coll_comm_t comm;
  cuda_stream_t cuda[2];
  coll_stream_t streams[2]; /* the same */
} graphs_side_t;

/* Each with the GPU's context; as bodies, they return 0 or have called harness_fail. */

/* Of two calls, each in a graph or not, the second uses the result of the first, whose stream is
 * held up. */
int graphs_in_order(const graphs_side_t *side);

/* A graph and a call in turn, many times, each using the result of the one before. */
int graphs_in_turn(const graphs_side_t *side);

/* A capture of two streams with calls on both. */
int graphs_of_two_streams(const graphs_side_t *side);

/* Two captures at once, with calls in turn. */
int graphs_captured_at_once(const graphs_side_t *side);

#endif
