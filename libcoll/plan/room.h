/*
 * How much of a block one pass over a plan can carry: its messages must fit their slots, and its
 * scratch chunks the arena. A larger block takes several passes. The engine divides calls by this
 * limit, and the tuner prices them by it.
 */
#ifndef PLAN_ROOM_H
#define PLAN_ROOM_H

#include "plan/plan.h"

/* The space that a communicator provides. */
typedef struct plan_room {
  size_t slot_bytes;    /* largest message on every route */
  size_t mcast_bytes;   /* largest multicast message; 0 where the transport has no multicast */
  size_t scratch_bytes; /* per rank */
} plan_room_t;

/* The space that a plan needs. */
typedef struct plan_load {
  int32_t parts, message_chunks, scratch_chunks;
  int32_t messages_min; /* of a long chunk: its receiver works while the rest is sent */
  bool multicast;
} plan_load_t;

plan_load_t plan_load_of(const plan_t *plan);

/* The most elements of a block that one pass can carry: 0 where a chunk of one element does not
 * fit, SIZE_MAX where nothing limits it. *grain: chunks begin at multiples of this many elements: a
 * cache line, or 1 where a chunk is smaller. */
size_t plan_pass_max(const plan_room_t *room, const plan_load_t *load, size_t element_bytes,
                     size_t *grain);

/* The same of a call with blocks of `count` elements, whose chunks are sent in
 * messages_min messages or more if these have at least 1 MiB / messages_min. */
size_t plan_pass_of(const plan_room_t *room, const plan_load_t *load, size_t element_bytes,
                    size_t count, size_t *grain);

#endif
