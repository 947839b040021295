/* The copy engines serve an end: their room, and launches on them. Programs and arrays of blocks
 * are read on the host, so nothing is uploaded or staged. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/names.h"
#include "device/cuda/compute_kernel.h"
#include "device/cuda/end_state.h"

/* ---- the room --------------------------------------------------------------------------------*/

#define CHANNELS 2
#define LANES 8
#define DEPTH 4
#define SLOT_BYTES_MAX ((size_t)8 << 20)
#define SLOT_BYTES_MIN ((size_t)4 << 10)
#define SCRATCH_BYTES (CUDA_END_ARENA_BYTES / 2)

/* An operation costs as much as some hundred KiB, and a turn of another process as much as some
 * hundred MiB. So what is under way at once, in SCRATCH or in slots, is as much as the arena
 * permits. Plans of many channels would divide it further, and gain nothing. */
gpu_room_t cuda_end_copy_room(int size) {
  gpu_room_t room = {.size = size,
                     .channels = CHANNELS,
                     .slices = 1,
                     .rings = CHANNELS,
                     .depth = DEPTH,
                     .scratch_bytes = SCRATCH_BYTES};
  size_t slots = gpu_arena_fifos(&room) * DEPTH, other = gpu_arena_slots_at(&room);
  size_t left = other < CUDA_END_ARENA_BYTES ? CUDA_END_ARENA_BYTES - other : 0;
  size_t bytes = left / slots / 1024 * 1024;
  if (bytes > SLOT_BYTES_MAX) bytes = SLOT_BYTES_MAX;
  room.slot_bytes = bytes > SLOT_BYTES_MIN ? bytes : SLOT_BYTES_MIN;
  return room;
}

/* ---- launches --------------------------------------------------------------------------------*/

/* Lanes of a plan, and of any group (exchange.h). */
static int lanes_of(const cuda_end_t *end) {
  return 2 * end->size > LANES ? 2 * end->size : LANES;
}

static coll_status_t check(const cuda_end_t *end, const gpu_program_t *bound) {
  const gpu_request_t widest = {.count = 1, .dtype = COLL_FLOAT64};
  gpu_call_t call;
  if (bound->lanes > lanes_of(end)) {
    return base_fail(COLL_ERROR_UNSUPPORTED, "a plan has %d lanes; the copy engines serve up to %d",
                     bound->lanes, lanes_of(end));
  }
  return gpu_bind_call(&end->room, NULL, bound, NULL, &widest, 1, &call);
}

static void store(uint64_t *word, uint64_t value) {
  /* release: a reader that sees one of the words sees that the entry is being written */
  __atomic_store_n(word, value, __ATOMIC_RELEASE);
}

/* What progress.c tells of the call. */
static void note(cuda_end_t *end, const gpu_words_t *words) {
  uint64_t number = ++end->calls;
  cuda_end_past_t *past = &end->past[number % CUDA_END_PAST];
  store(&past->number, 0);
  store(&past->collective, words != NULL ? end->collectives++ : UINT64_MAX);
  store(&past->what, words != NULL ? words->what : 0);
  store(&past->count, words != NULL ? words->count : 0);
  store(&past->number, number);
}

static coll_status_t queue(cuda_end_t *end, const gpu_program_t *program,
                           const gpu_request_t *request, cuda_stream_t stream) {
  note(end, request->words);
  COLL_TRY(cuda_copy_launch(end->copy, program, request, stream));
  end->last = cuda_copy_done(end->copy);
  return COLL_OK;
}

static gpu_blocks_t blocks_of(const cuda_blocks_t *blocks) {
  return (gpu_blocks_t){blocks->counts, blocks->offsets};
}

static coll_status_t launch(cuda_end_t *end, const cuda_program_t *program,
                            const cuda_request_t *request, cuda_stream_t stream) {
  size_t bytes = request->count * base_dtype_bytes(request->dtype);
  gpu_request_t bound = {.input = request->input,
                         .output = request->output,
                         .count = request->count,
                         .input_blocks = blocks_of(&request->input_blocks),
                         .output_blocks = blocks_of(&request->output_blocks),
                         .dtype = request->dtype,
                         .op = request->op,
                         .scalar = request->scalar,
                         .words = request->words};
  if (request->scalar != NULL) {
    bytes *= (size_t)program->bound->input_blocks;
    COLL_TRY(cuda_end_scaled_buffer(end, bytes, &bound.scaled));
  }
  return queue(end, program->bound, &bound, stream);
}

static coll_status_t launch_group(cuda_end_t *end, const cuda_end_group_t *group,
                                  cuda_stream_t stream) {
  size_t count = (size_t)group->transfers, *counts = group->counts;
  const gpu_request_t request = {.count = group->largest,
                                 .input_blocks = {counts, counts + 2 * count},
                                 .output_blocks = {counts + count, counts + 3 * count},
                                 .dtype = COLL_UINT8};
  return queue(end, group->program, &request, stream);
}

static const cuda_executor_t copy_executor = {
    .check = check, .launch = launch, .launch_group = launch_group};

/* ---- connection ------------------------------------------------------------------------------*/

coll_status_t cuda_end_copy_connect(cuda_end_t *end, char *const arenas[]) {
  gpu_room_t room = cuda_end_copy_room(end->size);
  cuda_copy_config_t config = {.device = end->device,
                               .rank = end->rank,
                               .lanes = lanes_of(end),
                               .room = room,
                               .arenas = arenas,
                               .code = end->code,
                               .begun = end->record_address + offsetof(gpu_record_t, begun),
                               .ended = end->record_address + offsetof(gpu_record_t, ended),
                               .waits = end->config.waits,
                               .context = end->config.context};
  COLL_TRY(cuda_copy_create(end->driver, &config, &end->copy));
  end->room = room;
  end->executor = &copy_executor;
  return COLL_OK;
}
