/* The room follows from the number of ranks and the protocols, so all ranks have the same. Channels
 * and depth are what plans need; what is left of the arena is divided among the slots. */
#include "device/cuda/end_state.h"

#define CHANNELS 8 /* a plan's lanes */
#define RINGS 128  /* to each peer: about as many as blocks of a launch, which have one each */
#define DEPTH 4
#define SLOT_BYTES_MAX ((size_t)64 << 10)
#define SLOT_BYTES_MIN ((size_t)4 << 10)
#define SCRATCH_BYTES ((size_t)16 << 20)

/* Slots of flagged words and lines, as parts of an ordinary one. The sizes decide which protocol a
 * call takes (bind_call.c). Words hold at most 8 KiB of data, whose flags take a block as long as,
 * by NCCL's table of costs, a small message by LL128 takes longer than one by LL (docs/gpu.md). */
#define LL_PART 4
#define LL128_PART 2

static size_t flagged_bytes(size_t slot_bytes, uint32_t protocols, gpu_flagged_t kind) {
  bool words = kind == GPU_FLAGGED_WORDS;
  if ((protocols & (words ? CUDA_PROTOCOL_LL : CUDA_PROTOCOL_LL128)) == 0) return 0;
  return slot_bytes / (words ? LL_PART : LL128_PART);
}

/* Of each slot, in whole KiB; less than the minimum if there are too many. */
static size_t slot_bytes(const gpu_room_t *room, uint32_t protocols) {
  size_t slots = gpu_arena_fifos(room) * (size_t)room->depth, other = gpu_arena_slots_at(room);
  size_t left = other < CUDA_END_ARENA_BYTES ? CUDA_END_ARENA_BYTES - other : 0;
  size_t unit = 1024, all = unit;
  for (int kind = 0; kind < GPU_FLAGGED_KINDS; kind++) {
    all += flagged_bytes(unit, protocols, (gpu_flagged_t)kind);
  }
  size_t bytes = left / all / slots * unit;
  return bytes < SLOT_BYTES_MAX ? bytes : SLOT_BYTES_MAX;
}

gpu_room_t cuda_end_room(int size, uint32_t protocols) {
  gpu_room_t room = {.size = size,
                     .channels = CHANNELS,
                     .slices = CUDA_END_SLICES_MAX,
                     .rings = RINGS,
                     .depth = DEPTH,
                     .scratch_bytes = SCRATCH_BYTES};
  while ((room.slot_bytes = slot_bytes(&room, protocols)) < SLOT_BYTES_MIN &&
         room.rings > room.channels) {
    room.rings /= 2;
  }
  if (room.slices > room.rings) room.slices = room.rings;
  if (room.slot_bytes < SLOT_BYTES_MIN) room.slot_bytes = SLOT_BYTES_MIN;
  room.ll_slot_bytes = flagged_bytes(room.slot_bytes, protocols, GPU_FLAGGED_WORDS);
  room.ll128_slot_bytes = flagged_bytes(room.slot_bytes, protocols, GPU_FLAGGED_LINES);
  return room;
}
