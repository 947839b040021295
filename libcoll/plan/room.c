/* The smaller of two limits: message slots and the scratch arena. */
#include "plan/room.h"

#define GRAIN_BYTES 64 /* chunks begin on cache lines if their buffer does */
#define ONE_WAY_BYTES_MIN ((size_t)256 << 10)
#define ONE_WAY_PARTS_MIN 4

/* Not gather and scatter, in which only the root knows whether all blocks have one size. */
static bool is_one_way(coll_collective_t collective) {
  return collective == COLL_BROADCAST || collective == COLL_REDUCE || collective == COLL_SENDRECV;
}

plan_load_t plan_load_of(const plan_t *plan) {
  return (plan_load_t){.parts = plan->parts,
                       .message_chunks = plan->message_chunks,
                       .scratch_chunks = plan->scratch_chunks,
                       .multicast = plan->multicast,
                       .one_way = is_one_way(plan->shape.collective)};
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
  size_t chunk = count / (size_t)load->parts / ONE_WAY_PARTS_MIN;
  size_t bytes = chunk * element_bytes * (size_t)load->message_chunks;
  if (bytes < ONE_WAY_BYTES_MIN) bytes = ONE_WAY_BYTES_MIN;
  if (load->one_way && bytes < room->slot_bytes) limited.slot_bytes = bytes;
  return plan_pass_max(&limited, load, element_bytes, grain);
}
