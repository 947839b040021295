/*
 * A rank's program as the kernel reads it: flat arrays without pointers, so that one copy brings it
 * to a device. It does not depend on the call: where a piece lies follows from the call's count, by
 * a few multiplications. So a plan's program is uploaded once and serves calls of any size.
 *
 * Every action is one step of the plan, with the same number, though some are carried out together.
 * A span becomes one piece per block of the buffer that it crosses; spans that a step pairs are cut
 * at the same places, and so into equally large pieces.
 */
#ifndef DEVICE_CUDA_PROGRAM_H
#define DEVICE_CUDA_PROGRAM_H

#include "device/cuda/gpu.h"

typedef enum gpu_action_kind {
  GPU_COPY,
  GPU_REDUCE,
  GPU_SEND,
  GPU_RECV,
  GPU_SIGNAL,
  GPU_WAIT,
  GPU_AFTER
} gpu_action_kind_t;

/* This rank's INPUT and OUTPUT. From GPU_BASE_SCRATCH on: SCRATCH of each rank, then INPUT of each
 * peer, then OUTPUT of each. */
enum { GPU_BASE_INPUT, GPU_BASE_OUTPUT, GPU_BASE_SCRATCH };

/* Parts [first, end) of a block of a buffer. */
typedef struct gpu_piece {
  int32_t base, block, first, end;
} gpu_piece_t;

typedef struct gpu_action {
  uint8_t kind;
  uint8_t watched;     /* another lane waits for this step */
  uint16_t operands;   /* COPY: 2; REDUCE: 1 + sources; of a message: 1 */
  int32_t peer;        /* SEND, RECV, SIGNAL, WAIT; AFTER: the lane */
  int32_t channel;     /* SEND, RECV; SIGNAL, WAIT: of the lane; AFTER: the step */
  int32_t fused;       /* COPY, REDUCE: so many COPY actions follow that only store the same data
                          elsewhere. The kernel carries them out with this one (bind_program.c) */
  int32_t piece_count; /* of each operand */
  uint32_t pieces;     /* index of the first: a destination and its sources, piece by piece */
} gpu_action_t;

typedef struct gpu_program {
  int32_t rank, size, lanes, parts;
  int32_t depth;          /* FIFO depth that the plan needs */
  int32_t message_chunks; /* largest message */
  int32_t scratch_chunks;
  int32_t input_blocks, output_blocks; /* of this rank */
  int32_t independent;                 /* an exchange: no lane waits for another (exchange.h) */
  int32_t is_own;                      /* no rank of the plan accesses memory of another */
  int32_t is_exact;                    /* its order is PLAN_ORDER_EXACT */
  int32_t enters; /* ranks access INPUT or OUTPUT of peers: none starts before all have entered the
                     call (enter.h) */
  int32_t reaches_input, reaches_output; /* this rank accesses those of peers */
  uint32_t stride;                       /* values of a lane's progress per pass (kernel.c) */
  uint32_t actions_at, pieces_at;        /* in bytes from the start */
  uint32_t bytes;                        /* of the whole */
} gpu_program_t;

/* The array that follows: end of the actions of each lane; lane 0 begins at 0. */
GPU_FUNCTION const uint32_t *gpu_program_lane_ends(const gpu_program_t *program) {
  return (const uint32_t *)(const void *)(program + 1);
}

GPU_FUNCTION const gpu_action_t *gpu_program_actions(const gpu_program_t *program) {
  const char *start = (const char *)program;
  return (const gpu_action_t *)(const void *)(start + program->actions_at);
}

GPU_FUNCTION const gpu_piece_t *gpu_program_pieces(const gpu_program_t *program) {
  const char *start = (const char *)program;
  return (const gpu_piece_t *)(const void *)(start + program->pieces_at);
}

#endif
