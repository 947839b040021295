/* What a block knows of the call that it runs. */
#ifndef DEVICE_CUDA_RUN_H
#define DEVICE_CUDA_RUN_H

#include "device/cuda/call.h"

#define GPU_OPERANDS_MAX 128   /* of a reduction */
#define GPU_PROGRAM_BYTES 4096 /* of a program that a block copies to its shared memory */

/* How `count` elements are cut into equal numbers of grains. */
typedef struct gpu_cut {
  size_t count, grain, whole, extra;
} gpu_cut_t;

typedef struct gpu_run {
  const gpu_call_t *call;
  const gpu_rank_t *rank;
  const gpu_program_t *program;
  const gpu_room_t *room;
  const gpu_piece_t *pieces;
  const char **operands; /* shared by the threads of the block */
  char *arena;           /* of this rank */
  const char *input;     /* scaled, if the call asks for it */
  int32_t lane, slice;
  uint32_t passes;  /* that have begun */
  uint64_t number;  /* of the call, among those that have an identity */
  uint64_t digest;  /* of the call and of all collectives before it */
  uint64_t base;    /* progress at the start of the pass */
  size_t first;     /* where the pass begins in an even block, in elements */
  size_t start;     /* the same, within the slice */
  gpu_cut_t window; /* what the pass covers of an even block, cut into parts */
} gpu_run_t;

/* What the threads of a block share. Loads with acquire, as of flags, empty a multiprocessor's
 * cache of the GPU's memory, so the rank and a program that is not too large are copied. What the
 * block knows of its call is the same for all threads: as a variable of each it would take their
 * registers and stack. */
typedef struct gpu_shared {
  const char *operands[GPU_OPERANDS_MAX + 1]; /* and a destination */
  gpu_rank_t rank;
  gpu_run_t run;
  uint64_t program[GPU_PROGRAM_BYTES / sizeof(uint64_t)];
} gpu_shared_t;

/* The ring of a channel, or the progress word of a lane, in this block's slice. */
GPU_FUNCTION int32_t gpu_ring_of(const gpu_run_t *run, int32_t channel) {
  return gpu_ring(channel, run->slice, run->call->slices);
}

#endif
