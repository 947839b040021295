/* The argument of a launch. What ranks must agree on, slices, passes and grain, follows from the
 * program's header, the room, the count and the dtype. */
#include "base/memory.h"
#include "base/names.h"
#include "device/cuda/bind.h"
#include "plan/room.h"

static coll_status_t check_room(const gpu_room_t *room, const gpu_program_t *bound, int slices) {
  if (bound->channels > room->channels) {
    return base_fail(COLL_ERROR_UNSUPPORTED,
                     "a plan needs %d channels; the GPU communicator has %d", bound->channels,
                     room->channels);
  }
  int32_t depth = bound->depth > 0 ? bound->depth : 1;
  if (depth > room->depth) {
    return base_fail(COLL_ERROR_UNSUPPORTED,
                     "a plan needs rings of %d slots; the GPU communicator has %d", depth,
                     room->depth);
  }
  if (slices < 1 || slices > room->slices) {
    return base_fail(COLL_ERROR_INVALID, "a call has 1 to %d slices, not %d", room->slices, slices);
  }
  return COLL_OK;
}

/* Elements of the largest slice of a block, a multiple of the grain; at least one grain. */
static size_t largest_slice(size_t count, int slices, size_t grain) {
  size_t grains = (count + grain - 1) / grain;
  size_t most = (grains + (size_t)slices - 1) / (size_t)slices;
  return (most > 0 ? most : 1) * grain;
}

static coll_status_t divide_passes(const gpu_room_t *room, const gpu_program_t *bound,
                                   gpu_call_t *call) {
  const plan_room_t space = {.slot_bytes = room->slot_bytes, .scratch_bytes = room->scratch_bytes};
  const plan_load_t load = {.parts = bound->parts,
                            .message_chunks = bound->message_chunks,
                            .scratch_chunks = bound->scratch_chunks};
  size_t max = plan_pass_max(&space, &load, call->element_bytes, &call->grain);
  size_t slice = largest_slice(call->count, call->slices, call->grain);
  if (max == 0) {
    return base_fail(COLL_ERROR_UNSUPPORTED,
                     "a plan of %d scratch chunks and messages of %d chunks does not fit the GPU "
                     "communicator: slots of %zu bytes, scratch of %zu",
                     bound->scratch_chunks, bound->message_chunks, room->slot_bytes,
                     room->scratch_bytes);
  }
  call->pass_max = max < slice ? max : slice;
  call->passes = (uint32_t)((slice + call->pass_max - 1) / call->pass_max);
  return COLL_OK;
}

coll_status_t gpu_bind_call(const gpu_room_t *room, const gpu_rank_t *rank,
                            const gpu_program_t *bound, const gpu_program_t *program,
                            const gpu_request_t *request, int slices, gpu_call_t *call) {
  COLL_TRY(check_room(room, bound, slices));
  gpu_call_t made = {.rank = rank,
                     .program = program,
                     .input = request->input,
                     .output = request->output,
                     .input_blocks = request->input_blocks,
                     .output_blocks = request->output_blocks,
                     .count = request->count,
                     .slices = slices,
                     .dtype = (int32_t)request->dtype,
                     .op = (int32_t)request->op,
                     .divisor = request->averages ? bound->size : 1,
                     .element_bytes = (uint32_t)base_dtype_bytes(request->dtype)};
  if (request->scalar != NULL) {
    made.scaled = request->scaled;
    memcpy(&made.scalar, request->scalar, made.element_bytes);
  }
  COLL_TRY(divide_passes(room, bound, &made));
  *call = made;
  return COLL_OK;
}

coll_status_t gpu_bind_slices(const gpu_room_t *room, const gpu_program_t *bound, uint32_t resident,
                              int wanted, int *slices) {
  uint32_t most = resident / (uint32_t)bound->lanes;
  if (most == 0) {
    return base_fail(COLL_ERROR_UNSUPPORTED,
                     "a plan of %d lanes needs as many blocks; this GPU can keep %u of a rank "
                     "resident at once, so they could wait for each other forever",
                     bound->lanes, resident);
  }
  if ((uint32_t)room->slices < most) most = (uint32_t)room->slices;
  *slices = (uint32_t)wanted < most ? wanted : (int)most;
  return COLL_OK;
}
