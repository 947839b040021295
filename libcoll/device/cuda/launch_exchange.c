/* The kernel's launches of groups of sends and receives. The program of a group names peers and
 * directions alone, so groups that are called again and again have one program in the GPU's memory.
 */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "device/cuda/end_state.h"

#define PROGRAMS_MAX 64 /* of exchanges; those of further groups are read from pinned memory */

/* ---- programs --------------------------------------------------------------------------------*/

/* The group's program in the GPU's memory, or NULL: there are too many. */
static coll_status_t find_or_add(cuda_end_t *end, const cuda_end_group_t *group,
                                 const cuda_program_t **program) {
  cuda_program_t *made;
  gpu_program_t *copy;
  *program = cuda_end_find_group(end, group->program);
  if (*program != NULL || end->group_count >= PROGRAMS_MAX) return COLL_OK;
  COLL_TRY(base_alloc(1, group->program->bytes, "a group's program", (void **)&copy));
  memcpy(copy, group->program, group->program->bytes);
  coll_status_t status = cuda_end_add_program(end, NULL, copy, &made);
  if (status != COLL_OK) {
    free(copy);
    return status;
  }
  *program = made;
  return COLL_OK;
}

/* ---- launches --------------------------------------------------------------------------------*/

/* Copies the arrays to memory that the kernel reads, and the program behind them if *there is NULL.
 */
static coll_status_t stage(cuda_end_t *end, const cuda_order_stream_t *to,
                           const cuda_end_group_t *group, gpu_request_t *request,
                           const gpu_program_t **there) {
  size_t count = (size_t)group->transfers, bytes = 4 * count * sizeof(size_t);
  size_t program_at = base_round_up(bytes, GPU_VECTOR_BYTES);
  size_t program_bytes = *there == NULL ? group->program->bytes : 0;
  char *host;
  cuda_ptr_t address;
  COLL_TRY(cuda_end_stage(end, to, program_at + program_bytes, &host, &address));
  memcpy(host, group->counts, bytes);
  memcpy(host + program_at, group->program, program_bytes);
  const size_t *blocks = (const size_t *)(uintptr_t)address;
  *request = (gpu_request_t){.count = group->largest,
                             .input_blocks = {blocks, blocks + 2 * count},
                             .output_blocks = {blocks + count, blocks + 3 * count},
                             .dtype = COLL_UINT8};
  if (*there == NULL) *there = (const gpu_program_t *)(uintptr_t)(address + program_at);
  return COLL_OK;
}

coll_status_t cuda_kernel_launch_group(cuda_end_t *end, const cuda_end_group_t *group,
                                       cuda_stream_t stream) {
  const cuda_program_t *program;
  cuda_order_stream_t to;
  gpu_request_t request;
  gpu_call_t call;
  int slices;
  COLL_TRY(gpu_exchange_slices(&end->room, end->offer.blocks, CUDA_END_FIXED_SLICES, &slices));
  COLL_TRY(find_or_add(end, group, &program));
  const gpu_program_t *there = program == NULL ? NULL : program->there;
  COLL_TRY(cuda_end_begin(end, stream, &to));
  COLL_TRY(stage(end, &to, group, &request, &there));
  COLL_TRY(gpu_bind_call(&end->room, end->here, group->program, there, &request, slices, &call));
  return cuda_end_queue(end, &to, &call, gpu_call_blocks(group->program, slices));
}
