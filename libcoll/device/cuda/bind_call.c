/* The argument of a launch. What ranks must agree on, slices, passes and grain, follows from the
 * program's header, the room, the count and the dtype; so does the protocol, of even calls. */
#include "base/alloc.h"
#include "base/names.h"
#include "device/cuda/bind.h"
#include "plan/room.h"

/* Rings to each peer, and words of progress, that a slice takes. Lanes of an exchange have no
 * progress, and one channel together. */
static int32_t rings_of(const gpu_program_t *bound) {
  return bound->independent ? 1 : bound->lanes;
}

static coll_status_t check_lanes(const gpu_room_t *room, const gpu_program_t *bound) {
  if (rings_of(bound) <= room->channels) return COLL_OK;
  return base_fail(COLL_ERROR_UNSUPPORTED, "a plan has %d lanes; the GPU communicator has %d",
                   bound->lanes, room->channels);
}

static coll_status_t check_room(const gpu_room_t *room, const gpu_program_t *bound, int slices) {
  COLL_TRY(check_lanes(room, bound));
  int32_t depth = bound->depth > 0 ? bound->depth : 1;
  if (depth > room->depth) {
    return base_fail(COLL_ERROR_UNSUPPORTED,
                     "a plan needs rings of %d slots; the GPU communicator has %d", depth,
                     room->depth);
  }
  if (slices < 1 || slices > room->slices) {
    return base_fail(COLL_ERROR_INVALID, "a call has 1 to %d slices, not %d", room->slices, slices);
  }
  if (slices * rings_of(bound) > room->rings) {
    return base_fail(COLL_ERROR_INVALID, "a call of %d lanes has at most %d slices, not %d",
                     rings_of(bound), room->rings / rings_of(bound), slices);
  }
  return COLL_OK;
}

/* A premul-sum scales its input into memory that peers cannot access. */
static coll_status_t check_parts(const gpu_program_t *bound, const gpu_request_t *request) {
  bool has_input = request->input_parts.at != NULL, has_output = request->output_parts.at != NULL;
  bool lacks = (bound->reaches_input && !has_input) || (bound->reaches_output && !has_output);
  if (!bound->enters) return COLL_OK;
  if (lacks || (!has_input && !has_output)) {
    return base_fail(COLL_ERROR_UNSUPPORTED,
                     "the plan accesses users' buffers of other ranks, which are in no window");
  }
  if (request->scalar == NULL) return COLL_OK;
  return base_fail(COLL_ERROR_UNSUPPORTED,
                   "the plan accesses users' buffers of other ranks, of which a premul-sum reads "
                   "scaled copies");
}

/* A reduction of an average averages all of its operands, so there must be but one. */
static coll_status_t check_order(const gpu_program_t *bound, const gpu_request_t *request) {
  bool averages = request->op == COLL_AVG && !base_dtype_is_integer(request->dtype);
  if (!averages || bound->is_exact) return COLL_OK;
  return base_fail(COLL_ERROR_UNSUPPORTED,
                   "an average of %s needs a plan that reduces the operands of all ranks in one "
                   "step",
                   base_dtype_name(request->dtype));
}

/* Elements of the largest slice of a block, a multiple of the grain; at least one grain. */
static size_t largest_slice(size_t count, int slices, size_t grain) {
  size_t grains = (count + grain - 1) / grain;
  size_t most = (grains + (size_t)slices - 1) / (size_t)slices;
  return (most > 0 ? most : 1) * grain;
}

static size_t pass_max(const gpu_room_t *room, const gpu_program_t *bound, const gpu_call_t *call,
                       size_t slot_bytes, size_t *grain) {
  const plan_room_t space = {.slot_bytes = slot_bytes,
                             .scratch_bytes = gpu_scratch_bytes(room, call->slices)};
  const plan_load_t load = {.parts = bound->parts,
                            .message_chunks = bound->message_chunks,
                            .scratch_chunks = bound->scratch_chunks};
  return plan_pass_max(&space, &load, call->element_bytes, grain);
}

static void set_passes(gpu_call_t *call, size_t max, size_t grain) {
  size_t slice = largest_slice(call->count, call->slices, grain);
  call->grain = grain;
  call->pass_max = max < slice ? max : slice;
  call->passes = (uint32_t)((slice + call->pass_max - 1) / call->pass_max);
}

/* Data of a slot for messages that carry their flags. Every piece of a message begins with a word
 * or line of its own, so it holds one less per chunk. */
static size_t flagged_bytes(const gpu_room_t *room, const gpu_program_t *bound,
                            gpu_protocol_t protocol) {
  bool words = protocol == GPU_PROTOCOL_LL;
  size_t slot = words ? room->ll_slot_bytes / sizeof(uint64_t) : room->ll128_slot_bytes / GPU_LINE;
  size_t chunks = (size_t)bound->message_chunks;
  return slot > chunks ? (slot - chunks) * (words ? GPU_LL_BYTES : GPU_LL128_BYTES) : 0;
}

/* False: the call does not take the protocol. */
static bool divide_passes_flagged(const gpu_room_t *room, const gpu_program_t *bound,
                                  gpu_protocol_t protocol, bool is_asked, gpu_call_t *call) {
  bool is_even = call->input_blocks.counts == NULL;
  size_t grain, bytes = flagged_bytes(room, bound, protocol);
  if (!bound->is_own || bytes == 0 || (!is_even && !is_asked)) return false;
  size_t max = pass_max(room, bound, call, bytes, &grain);
  if (max == 0 || (!is_asked && largest_slice(call->count, call->slices, grain) > max))
    return false;
  set_passes(call, max, grain);
  call->protocol = protocol;
  return true;
}

static bool choose_flagged(const gpu_room_t *room, const gpu_program_t *bound, gpu_protocol_t asked,
                           gpu_call_t *call) {
  for (int p = GPU_PROTOCOL_LL; p < GPU_PROTOCOL_COUNT; p++) {
    gpu_protocol_t protocol = (gpu_protocol_t)p;
    if (asked != GPU_PROTOCOL_ANY && asked != protocol) continue;
    if (divide_passes_flagged(room, bound, protocol, asked == protocol, call)) return true;
  }
  return false;
}

static coll_status_t divide_passes(const gpu_room_t *room, const gpu_program_t *bound,
                                   gpu_protocol_t protocol, gpu_call_t *call) {
  size_t grain, max = pass_max(room, bound, call, room->slot_bytes, &grain);
  if (max == 0) {
    return base_fail(COLL_ERROR_UNSUPPORTED,
                     "a plan of %d scratch chunks and messages of %d chunks does not fit the GPU "
                     "communicator: slots of %zu bytes, scratch of %zu",
                     bound->scratch_chunks, bound->message_chunks, room->slot_bytes,
                     gpu_scratch_bytes(room, call->slices));
  }
  if (choose_flagged(room, bound, protocol, call)) return COLL_OK;
  set_passes(call, max, grain);
  call->protocol = GPU_PROTOCOL_SLOTS;
  if (bound->independent) {
    /* Both ends of a message cut it alike, whatever else is in their groups. */
    call->pass_max = max;
    call->passes = 1;
  }
  return COLL_OK;
}

coll_status_t gpu_bind_call(const gpu_room_t *room, const gpu_rank_t *rank,
                            const gpu_program_t *bound, const gpu_program_t *program,
                            const gpu_request_t *request, int slices, gpu_call_t *call) {
  COLL_TRY(check_room(room, bound, slices));
  COLL_TRY(check_parts(bound, request));
  COLL_TRY(check_order(bound, request));
  bool sums_first = request->op == COLL_AVG && base_dtype_is_integer(request->dtype);
  gpu_call_t made = {.rank = rank,
                     .program = program,
                     .program_bytes = bound->bytes,
                     .input = request->input,
                     .output = request->output,
                     .input_blocks = request->input_blocks,
                     .output_blocks = request->output_blocks,
                     .input_parts = request->input_parts,
                     .output_parts = request->output_parts,
                     .count = request->count,
                     .slices = slices,
                     .dtype = (int32_t)request->dtype,
                     .op = (int32_t)(sums_first ? COLL_SUM : request->op),
                     .divisor = sums_first ? bound->size : 1,
                     .element_bytes = (uint32_t)base_dtype_bytes(request->dtype)};
  if (request->scalar != NULL) {
    made.scaled = request->scaled;
    memcpy(&made.scalar, request->scalar, made.element_bytes);
  }
  if (request->words != NULL) {
    made.words = *request->words;
    made.identity = gpu_words_digest(0, made.words);
  }
  COLL_TRY(divide_passes(room, bound, request->protocol, &made));
  *call = made;
  return COLL_OK;
}

coll_status_t gpu_bind_slices(const gpu_room_t *room, const gpu_program_t *bound, uint32_t resident,
                              int wanted, int *slices) {
  uint32_t most = resident / (uint32_t)bound->lanes;
  COLL_TRY(check_lanes(room, bound));
  if (most == 0) {
    return base_fail(COLL_ERROR_UNSUPPORTED,
                     "a plan of %d lanes needs as many blocks; this GPU can keep %u of a rank "
                     "resident at once, so they could wait for each other forever",
                     bound->lanes, resident);
  }
  uint32_t rings = (uint32_t)(room->rings / rings_of(bound));
  if (rings < most) most = rings;
  if ((uint32_t)room->slices < most) most = (uint32_t)room->slices;
  *slices = (uint32_t)wanted < most ? wanted : (int)most;
  return COLL_OK;
}
