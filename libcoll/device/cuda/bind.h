/*
 * Binding for the kernel, on the host: a rank's program in the kernel's form, the argument of a
 * launch, and how many blocks a launch may have.
 */
#ifndef DEVICE_CUDA_BIND_H
#define DEVICE_CUDA_BIND_H

#include "device/cuda/call.h"
#include "plan/plan.h"

/* Translates a rank's program, which must pass plan_check_program. Owned by the caller: free().
 * Contains no pointers, so its bytes may be copied to a device. COLL_ERROR_UNSUPPORTED: the plan
 * reduces too many operands at once. */
coll_status_t gpu_bind_program(const plan_t *plan, int rank, gpu_program_t **program);

/* Allocates a program of head->lanes lanes and that many actions and pieces, for the caller to fill
 * in: only the header is. Owned by the caller: free(). COLL_ERROR_MEMORY; COLL_ERROR_UNSUPPORTED:
 * too long; the text calls it `name`. */
coll_status_t gpu_program_alloc(const gpu_program_t *head, size_t actions, size_t pieces,
                                const char *name, gpu_program_t **program);

/* A call, as the user made it. Buffers are in the device's memory. */
typedef struct gpu_request {
  const void *input;
  void *output;
  void *scaled; /* premul-sum: device memory of the size of the input */
  size_t count; /* elements of a block; with uneven blocks, of this rank's largest */
  gpu_blocks_t input_blocks, output_blocks; /* arrays in device memory, or NULL */
  gpu_parts_t input_parts, output_parts; /* for plans of reach read and user: those that they access
                                            of peers, the same on all ranks */
  coll_dtype_t dtype;
  coll_op_t op;       /* builtin; of a premul-sum COLL_SUM. AVG of floats needs a plan of exact
                         order */
  const void *scalar; /* premul-sum: in host memory; else NULL */
  /* What all ranks of a collective must agree on (flight_call_t without number and history), in
   * host memory. NULL: a call that not all ranks make, such as sends and receives. */
  const gpu_words_t *words;
  /* ANY: the first of LL and LL128 by which an even call takes one pass. LL, LL128: for uneven and
   * larger calls too. All only if the room and the plan have it (flagged.h), else SLOTS. */
  gpu_protocol_t protocol;
} gpu_request_t;

/* Fills in the argument of a launch of `slices` slices. room: a copy of the one in *rank, which is
 * in device memory, like *program; `bound` is the host's copy of the program.
 * COLL_ERROR_UNSUPPORTED: the program needs more channels, slots, or space than the room has, or
 * parts that the request lacks. All ranks of the communicator get the same answer. */
coll_status_t gpu_bind_call(const gpu_room_t *room, const gpu_rank_t *rank,
                            const gpu_program_t *bound, const gpu_program_t *program,
                            const gpu_request_t *request, int slices, gpu_call_t *call);

/* Blocks of one launch. */
static inline uint32_t gpu_call_blocks(const gpu_program_t *bound, int slices) {
  return (uint32_t)bound->lanes * (uint32_t)slices;
}

/* The most blocks that one rank may launch so that all blocks that can wait for each other are
 * resident at once: those of all ranks that run on the device, each of which has one launch at a
 * time. blocks_per_multiprocessor: of this kernel, as the driver's occupancy function computes it.
 * Blocks of other kernels delay that, but not forever, as they wait for none of these. 0: too many
 * ranks for the device. */
static inline uint32_t gpu_resident_blocks(uint32_t multiprocessors,
                                           uint32_t blocks_per_multiprocessor, uint32_t ranks) {
  return multiprocessors * blocks_per_multiprocessor / ranks;
}

/* The number of slices for a call: `wanted`, or as many as the room and `resident` blocks allow.
 * COLL_ERROR_UNSUPPORTED: not even one slice of this program. The result is the same on all ranks
 * if the arguments are. */
coll_status_t gpu_bind_slices(const gpu_room_t *room, const gpu_program_t *bound, uint32_t resident,
                              int wanted, int *slices);

#endif
