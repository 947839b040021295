/*
 * The argument of a launch: one call of one rank. Block `lane * slices + slice` runs a lane of the
 * program for one slice of the data.
 *
 * A block of n elements is cut into slices as plan_part_offset does. A slice is processed in passes
 * of at most pass_max elements of each block, and what a pass covers is cut into the plan's parts.
 * So every slice is a series of passes over the plan as it was verified, on SCRATCH, rings and
 * flags of its own: no slice waits for another.
 *
 * Ranks whose calls differ find out: a message or signal carries a digest of its call and of all
 * collectives before it, and, with uneven blocks, of their sizes. The receiver compares it with its
 * own. A block that has waited long compares its call with that of the same number of the peer.
 *
 * A program that accesses INPUT or OUTPUT of peers has the call's gpu_parts_t of them, whose array
 * is uploaded once for a window. So a launch needs no upload, and can be captured.
 */
#ifndef DEVICE_CUDA_CALL_H
#define DEVICE_CUDA_CALL_H

#include <coll.h>

#include "device/cuda/arena.h"
#include "device/cuda/program.h"

/* Blocks of different sizes (alltoallv), in elements. NULL: blocks of `count` without gaps. */
typedef struct gpu_blocks {
  const size_t *counts, *offsets;
} gpu_blocks_t;

/* The buffers of all ranks, which are in one window: rank r's begins at at[r] + offset + r *
 * stride. In place, the blocks of ranks follow each other in the larger buffer, hence the stride.
 * at NULL: only this rank's own is known. */
typedef struct gpu_parts {
  char *const *at; /* [size], in the device's memory, as this device addresses the ranks' parts */
  size_t offset, stride;
} gpu_parts_t;

/* How messages travel. The same on all ranks. */
typedef enum gpu_protocol {
  GPU_PROTOCOL_ANY,   /* in a request: as the size suggests; in a call: as SLOTS */
  GPU_PROTOCOL_SLOTS, /* bytes in a slot, then a flag */
  GPU_PROTOCOL_LL,    /* words that carry flags (ll.h) */
  GPU_PROTOCOL_LL128, /* lines that carry flags (ll128.h) */
  GPU_PROTOCOL_COUNT
} gpu_protocol_t;

/* What kernels for CUDA devices are compiled for, beside a dtype (kernel.cu): one for all would
 * have the registers and the stack of the one that needs most, and be too large for the caches of
 * instructions. */
typedef enum gpu_ops {
  GPU_OPS_SUM,
  GPU_OPS_OTHER, /* all but SUM */
  GPU_OPS_COUNT
} gpu_ops_t;

/* Of the names of kernels. */
static inline const char *gpu_ops_name(gpu_ops_t ops) {
  return ops == GPU_OPS_SUM ? "sum" : "other";
}

/* Of a call: a constant in kernels for CUDA devices. */
GPU_FUNCTION gpu_ops_t gpu_ops_of(int op) {
#ifdef GPU_OPS
  (void)op;
  return GPU_OPS;
#else
  return op == COLL_SUM ? GPU_OPS_SUM : GPU_OPS_OTHER;
#endif
}

typedef struct gpu_call {
  const gpu_rank_t *rank;
  const gpu_program_t *program;
  uint32_t program_bytes;
  const char *input;
  char *output;
  char *scaled; /* premul-sum: of the size of the input, which is scaled into it; else NULL */
  gpu_blocks_t input_blocks, output_blocks;
  gpu_parts_t input_parts, output_parts;
  size_t count; /* elements of a block; with uneven blocks, of this rank's largest */
  size_t grain; /* slices and parts begin at multiples of it, in elements */
  size_t pass_max;
  uint32_t passes; /* >= 1, the same for all slices */
  int32_t slices;
  int32_t dtype, op; /* op: builtin; AVG, of a plan of exact order, averages floats */
  int32_t divisor;   /* the output, of integers, is divided by it; 1: not */
  uint32_t element_bytes;
  uint64_t scalar; /* of premul-sum, of type dtype */
  /* A collective's digest of `words`, not 0: messages and signals carry it, and it is numbered. 0:
   * the call has no identity, as sends and receives. */
  uint64_t identity;
  gpu_words_t words;
  int32_t protocol; /* gpu_protocol_t */
} gpu_call_t;

GPU_KERNEL gpu_run_kernel(GPU_ARGUMENT gpu_call_t call);

#endif
