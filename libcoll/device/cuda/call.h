/*
 * The argument of a launch: one call of one rank. Block `lane * slices + slice` runs a lane of the
 * program for one slice of the data.
 *
 * A block of n elements is cut into slices as plan_part_offset does. A slice is processed in passes
 * of at most pass_max elements of each block, and what a pass covers is cut into the plan's parts.
 * So every slice is a series of passes over the plan as it was verified, on SCRATCH, rings and
 * flags of its own: no slice waits for another.
 */
#ifndef DEVICE_CUDA_CALL_H
#define DEVICE_CUDA_CALL_H

#include "device/cuda/arena.h"
#include "device/cuda/program.h"

/* Blocks of different sizes (alltoallv), in elements. NULL: blocks of `count` without gaps. */
typedef struct gpu_blocks {
  const size_t *counts, *offsets;
} gpu_blocks_t;

typedef struct gpu_call {
  const gpu_rank_t *rank;
  const gpu_program_t *program;
  const char *input;
  char *output;
  char *scaled; /* premul-sum: of the size of the input, which is scaled into it; else NULL */
  gpu_blocks_t input_blocks, output_blocks;
  size_t count; /* elements of a block; with uneven blocks, of this rank's largest */
  size_t grain; /* slices and parts begin at multiples of it, in elements */
  size_t pass_max;
  uint32_t passes; /* >= 1, the same for all slices */
  int32_t slices;
  int32_t dtype, op; /* op: builtin; AVG reduces as SUM */
  int32_t divisor;   /* the output is divided by it; 1: not */
  uint32_t element_bytes;
  uint64_t scalar; /* of premul-sum, of type dtype */
} gpu_call_t;

GPU_KERNEL gpu_run_kernel(GPU_ARGUMENT gpu_call_t call);

#endif
