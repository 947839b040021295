/*
 * How much of a block goes through a plan at a time: its messages must fit their slots, and its
 * scratch chunks the arena. A larger block takes several passes. The engine cuts calls by this, and
 * the tuner prices them by it.
 */
#ifndef PLAN_ROOM_H
#define PLAN_ROOM_H

#include "plan/plan.h"

/* What a communicator has. */
typedef struct plan_room {
  size_t slot_bytes;    /* most bytes of a message on every route */
  size_t mcast_bytes;   /* of one that goes to all; 0 where none can */
  size_t scratch_bytes; /* per rank */
} plan_room_t;

/* What a plan puts there. */
typedef struct plan_load {
  int32_t parts, message_chunks, scratch_chunks;
  bool multicast;
} plan_load_t;

static inline plan_load_t plan_load_of(const plan_t *plan) {
  return (plan_load_t){plan->parts, plan->message_chunks, plan->scratch_chunks, plan->multicast};
}

/* Elements of a block that one pass takes at most: 0 where there is no room for a single element of
 * each chunk, SIZE_MAX where nothing limits it. *grain: chunks begin at multiples of so many
 * elements, which is at a cache line wherever a chunk has room for one. */
size_t plan_pass_max(const plan_room_t *room, const plan_load_t *load, size_t element_bytes,
                     size_t *grain);

#endif
