/* The smaller of two limits: message slots and the scratch arena. */
#include "plan/room.h"

#define GRAIN_BYTES 64 /* chunks begin on cache lines if their buffer does */
#define DIVIDED_BYTES ((size_t)1 << 20) /* of a chunk with the least messages */

/* Between two ranks, two messages use two connections. Where ranks pass on what they receive, they
 * work one behind another. Not of gather and scatter, in which only the root knows whether all
 * blocks have one size. */
static int32_t messages_min_of(const plan_shape_t *shape) {
  switch (shape->collective) {
    case COLL_SENDRECV: return 2;
    case COLL_BROADCAST:
    case COLL_REDUCE: return shape->size == 2 ? 2 : 4;
    default: return 1;
  }
}

plan_load_t plan_load_of(const plan_t *plan) {
  return (plan_load_t){.parts = plan->parts,
                       .message_chunks = plan->message_chunks,
                       .scratch_chunks = plan->scratch_chunks,
                       .multicast = plan->multicast,
                       .messages_min = messages_min_of(&plan->shape)};
}

static size_t fitting(size_t bytes, int32_t chunks, size_t element_bytes) {
  return chunks > 0 ? bytes / (size_t)chunks / element_bytes : SIZE_MAX;
}

size_t plan_pass_max(const plan_room_t *room, const plan_load_t *load, size_t element_bytes,
                     size_t *grain) {
  size_t message_bytes = load->multicast ? room->mcast_bytes : room->slot_bytes;
  size_t max = fitting(message_bytes, load->message_chunks, element_bytes);
  size_t in_scratch = fitting(room->scratch_bytes, load->scratch_chunks, element_bytes);
  if (in_scratch < max) max = in_scratch;
  *grain = GRAIN_BYTES / element_bytes;
  if (max < *grain) *grain = 1;
  size_t parts = (size_t)load->parts;
  return max > SIZE_MAX / parts ? SIZE_MAX : (max - max % *grain) * parts;
}

size_t plan_pass_of(const plan_room_t *room, const plan_load_t *load, size_t element_bytes,
                    size_t count, size_t *grain) {
  plan_room_t limited = *room;
  size_t messages = load->messages_min > 0 ? (size_t)load->messages_min : 1;
  size_t chunk = count / (size_t)load->parts / messages;
  size_t bytes = chunk * element_bytes * (size_t)load->message_chunks;
  if (bytes < DIVIDED_BYTES / messages) bytes = DIVIDED_BYTES / messages;
  if (messages > 1 && bytes < room->slot_bytes) limited.slot_bytes = bytes;
  return plan_pass_max(&limited, load, element_bytes, grain);
}
