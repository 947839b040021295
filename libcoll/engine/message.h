/*
 * The steps that carry a message. What a message consists of is worked out once; while its peer is
 * not ready, another try costs no more than the transport's look.
 */
#ifndef ENGINE_MESSAGE_H
#define ENGINE_MESSAGE_H

#include "engine/span.h"

typedef struct engine_message {
  bool resolved; /* the rest is filled in */
  bool left_out; /* empty, and neither side sends it */
  int32_t pieces;
  char *data; /* where it is or goes; the packing buffer for several pieces */
  size_t bytes;
  uint64_t tag;
} engine_message_t;

/* Tries to carry out the SEND or RECV step of the lane. opening: the call is in its first pass.
 * COLL_ERROR_MISMATCH where what came is not of this call. */
coll_status_t engine_message_move(engine_message_t *message, const engine_place_t *place,
                                  const plan_step_t *step, int lane, bool opening, bool *done);

#endif
