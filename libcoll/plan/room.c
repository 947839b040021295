/* The smaller of two limits: message slots and the scratch arena. */
#include "plan/room.h"

#define GRAIN_BYTES 64 /* chunks begin on cache lines if their buffer does */

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
