/* Makes the argument of a launch from a request, and queues it. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/names.h"
#include "device/cuda/end_state.h"

#define SLICE_BYTES ((size_t)32 << 10) /* of each block; less is not worth another CUDA block */

static int slices_of(size_t bytes) {
  size_t slices = bytes / SLICE_BYTES + 1;
  return slices < CUDA_END_SLICES_MAX ? (int)slices : CUDA_END_SLICES_MAX;
}

/* The same on all ranks, though alltoallv has other sizes on each. */
static int wanted_slices(const cuda_request_t *request) {
  if (request->input_blocks.counts != NULL) return CUDA_END_FIXED_SLICES;
  return slices_of(request->count * base_dtype_bytes(request->dtype));
}

int cuda_end_slices(const cuda_end_t *end, size_t bytes) {
  int slices = slices_of(bytes), most = end->room.slices;
  if (end->executor != &cuda_kernel_executor) return 1;
  if ((uint32_t)most > end->offer.blocks) most = (int)end->offer.blocks;
  return slices < most ? slices : most;
}

/* ---- arrays of blocks ------------------------------------------------------------------------*/

static char *put(char *to, const size_t values[], size_t count) {
  memcpy(to, values, count * sizeof *values);
  return to + count * sizeof *values;
}

/* Copies the four arrays of `count` each to memory that the kernel reads. */
static coll_status_t stage_blocks(cuda_end_t *end, const cuda_order_stream_t *to, size_t count,
                                  const cuda_request_t *request, gpu_request_t *bound) {
  char *host;
  cuda_ptr_t address;
  COLL_TRY(cuda_end_stage(end, to, 4 * count * sizeof(size_t), &host, &address));
  host = put(host, request->input_blocks.counts, count);
  host = put(host, request->input_blocks.offsets, count);
  host = put(host, request->output_blocks.counts, count);
  put(host, request->output_blocks.offsets, count);
  const size_t *there = (const size_t *)(uintptr_t)address;
  bound->input_blocks = (gpu_blocks_t){there, there + count};
  bound->output_blocks = (gpu_blocks_t){there + 2 * count, there + 3 * count};
  return COLL_OK;
}

/* ---- premul-sum ------------------------------------------------------------------------------*/

/* When the memory grows, earlier launches
 * may still use what there was: that is freed with the end. Sizes at least double, so it is less
 * than what there is. */
coll_status_t cuda_end_scaled_buffer(cuda_end_t *end, size_t bytes, void **buffer) {
  cuda_memory_t larger;
  if (bytes > end->scaled.bytes) {
    COLL_TRY(base_grow((void **)&end->outgrown, &end->outgrown_capacity, end->outgrown_count + 1,
                       sizeof *end->outgrown, "a GPU's scaled inputs"));
    if (bytes < 2 * end->scaled.bytes) bytes = 2 * end->scaled.bytes;
    COLL_TRY(cuda_memory_alloc(end->driver, end->device, bytes, &larger));
    if (end->scaled.address != 0) end->outgrown[end->outgrown_count++] = end->scaled;
    end->scaled = larger;
  }
  *buffer = (void *)(uintptr_t)end->scaled.address;
  return COLL_OK;
}

void cuda_end_scaled_free(cuda_end_t *end) {
  (void)cuda_memory_free(end->driver, &end->scaled);
  for (size_t i = 0; i < end->outgrown_count; i++) {
    (void)cuda_memory_free(end->driver, &end->outgrown[i]);
  }
  free(end->outgrown);
  end->outgrown = NULL;
  end->outgrown_count = end->outgrown_capacity = 0;
}

/* ---- launches --------------------------------------------------------------------------------*/

coll_status_t cuda_end_begin(cuda_end_t *end, cuda_stream_t stream, cuda_order_stream_t *to) {
  COLL_TRY(cuda_order_find(&end->order, stream, to));
  if (to->capture != 0) end->has_captured = true;
  return COLL_OK;
}

coll_status_t cuda_end_queue(cuda_end_t *end, const cuda_order_stream_t *to, const gpu_call_t *call,
                             uint32_t blocks) {
  gpu_call_t argument = *call;
  cuda_function_t kernel = end->code->run[call->dtype][gpu_ops_of(call->op)];
  COLL_TRY(cuda_order_wait(&end->order, to));
  COLL_TRY(cuda_launch(&end->launcher, kernel, blocks, GPU_THREADS_MAX, &argument, to->stream));
  COLL_TRY(cuda_order_record(&end->order, to));
  end->last = end->order.last;
  return COLL_OK;
}

static gpu_parts_t parts_of(const cuda_parts_t *parts) {
  return (gpu_parts_t){(char *const *)(uintptr_t)parts->at, parts->offset, parts->stride};
}

/* Translates a request to the kernel's form. */
static coll_status_t translate(cuda_end_t *end, const gpu_program_t *program,
                               const cuda_order_stream_t *to, const cuda_request_t *request,
                               gpu_request_t *bound) {
  size_t blocks = (size_t)program->input_blocks;
  *bound = (gpu_request_t){.input = request->input,
                           .output = request->output,
                           .input_parts = parts_of(&request->input_parts),
                           .output_parts = parts_of(&request->output_parts),
                           .count = request->count,
                           .dtype = request->dtype,
                           .op = request->op,
                           .scalar = request->scalar,
                           .words = request->words};
  if (request->input_blocks.counts != NULL) {
    COLL_TRY(stage_blocks(end, to, blocks, request, bound));
  }
  if (request->scalar == NULL) return COLL_OK;
  return cuda_end_scaled_buffer(end, blocks * request->count * base_dtype_bytes(request->dtype),
                                &bound->scaled);
}

/* The room of a call. Without slots for lines, if lines do not arrive as a whole at all ranks. */
static gpu_room_t room_of(const cuda_end_t *end) {
  gpu_room_t room = end->room;
  if (end->offer.lines == 0) room.ll128_slot_bytes = 0;
  return room;
}

static coll_status_t launch(cuda_end_t *end, const cuda_program_t *program,
                            const cuda_request_t *request, cuda_stream_t stream) {
  cuda_order_stream_t to;
  gpu_request_t bound;
  gpu_call_t call;
  const gpu_room_t room = room_of(end);
  int slices;
  COLL_TRY(
      gpu_bind_slices(&room, program->bound, end->offer.blocks, wanted_slices(request), &slices));
  COLL_TRY(cuda_end_begin(end, stream, &to));
  COLL_TRY(translate(end, program->bound, &to, request, &bound));
  COLL_TRY(gpu_bind_call(&room, end->here, program->bound, program->there, &bound, slices, &call));
  return cuda_end_queue(end, &to, &call, gpu_call_blocks(program->bound, slices));
}

static coll_status_t check(const cuda_end_t *end, const gpu_program_t *bound) {
  char *none = NULL;
  const gpu_parts_t parts = {.at = &none};
  const gpu_request_t widest = {
      .count = 1, .dtype = COLL_FLOAT64, .input_parts = parts, .output_parts = parts};
  gpu_call_t call;
  int slices;
  int most = CUDA_END_SLICES_MAX; /* which have the least SCRATCH each */
  COLL_TRY(gpu_bind_slices(&end->room, bound, end->offer.blocks, most, &slices));
  return gpu_bind_call(&end->room, NULL, bound, NULL, &widest, slices, &call);
}

const cuda_executor_t cuda_kernel_executor = {.captures = true,
                                              .uploads = true,
                                              .check = check,
                                              .launch = launch,
                                              .launch_group = cuda_kernel_launch_group};
