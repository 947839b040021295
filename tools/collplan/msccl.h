/*
 * Schedules in MSCCL's XML (https://github.com/Azure/msccl, the format of msccl-tools): reading
 * them as plans, and writing plans as such schedules.
 *
 * A thread block (tb) becomes a lane; its `chan` is the channel of its messages. A step that both
 * receives and sends becomes several steps: `rcs` is recv and send, `rrc` recv and reduce, `rrs`
 * and `rrcs` recv, reduce and send. `depid` and `deps` become an `after` step, and so does a nop.
 * In a schedule with inplace="1" and outofplace="0", INPUT that is also OUTPUT is named as OUTPUT.
 *
 * All chunks of MSCCL's scratch have one size. Here the size of a chunk follows from its number
 * modulo `parts`, so scratch chunks are renumbered by what they hold (msccl_scratch.c).
 */
#ifndef COLLPLAN_MSCCL_H
#define COLLPLAN_MSCCL_H

#include <stdio.h>

#include "plan/emit.h"
#include "plan/plan.h"

typedef enum msccl_type {
  MSCCL_SEND,
  MSCCL_RECV,
  MSCCL_RECV_COPY_SEND,
  MSCCL_RECV_REDUCE_SEND,
  MSCCL_RECV_REDUCE_COPY,
  MSCCL_RECV_REDUCE_COPY_SEND,
  MSCCL_COPY,
  MSCCL_REDUCE,
  MSCCL_NOP,
  MSCCL_TYPE_COUNT
} msccl_type_t;

extern const char *const msccl_type_names[MSCCL_TYPE_COUNT]; /* "rrcs" */
extern const char msccl_buffer_letters[PLAN_BUFFER_COUNT];   /* 'i', 'o', 's' */

/* ---- the file as it is ----------------------------------------------------------------------*/

typedef struct msccl_step {
  int line;
  msccl_type_t type;
  plan_buffer_t src_buffer, dst_buffer;
  int32_t src_first, dst_first, count;
  int32_t dep_block, dep_step; /* depid and deps; -1: none */
} msccl_step_t;

typedef struct msccl_block {
  int line;
  int32_t id, send, recv, channel; /* send, recv: a rank, or -1 */
  msccl_step_t *steps;
  size_t count, capacity;
} msccl_block_t;

/* <copy>: INPUT chunk from, to OUTPUT chunk to, before the first step. */
typedef struct msccl_copy {
  int line;
  int32_t from, to;
} msccl_copy_t;

typedef struct msccl_gpu {
  int line;                          /* 0: the file has no such gpu */
  int32_t chunks[PLAN_BUFFER_COUNT]; /* i_chunks, o_chunks, s_chunks */
  msccl_block_t *blocks;
  size_t count, capacity;
  msccl_copy_t *copies;
  size_t copy_count, copy_capacity;
} msccl_gpu_t;

typedef struct msccl_file {
  const char *name; /* for errors */
  int line;         /* of <algo> */
  char algorithm[PLAN_NAME_BYTES];
  coll_collective_t collective;
  int32_t ranks, root, chunks; /* chunks: nchunksperloop */
  bool in_place;
  msccl_gpu_t *gpus; /* [ranks] */
} msccl_file_t;

/* Reads the XML. Elements that are unknown, or in another place, are ignored, as by MSCCL; a line
 * about each is written to `warnings` (NULL: nowhere). COLL_ERROR_INVALID states file, line, what
 * is wrong and what was expected. Memory use is bounded by a constant and the length of the file.
 * Release with msccl_file_free, also after an error. `name` is not copied. */
coll_status_t msccl_parse(FILE *in, const char *name, FILE *warnings, msccl_file_t *file);
void msccl_file_free(msccl_file_t *file);

/* COLL_ERROR_INVALID: "file:line: why". */
coll_status_t msccl_refuse(const char *name, int line, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* ---- as a plan ------------------------------------------------------------------------------*/

/* The line of the file that each step of a plan is from. */
typedef struct msccl_lines {
  int32_t lanes;
  struct msccl_lane_lines {
    int *numbers; /* by step */
    size_t count, capacity;
  } * of; /* [ranks * lanes] */
  size_t count;
} msccl_lines_t;

void msccl_lines_free(msccl_lines_t *lines);
int msccl_line_of(const msccl_lines_t *lines, int32_t rank, int32_t lane, int32_t step);

/* Makes the plan and checks it by plan_check_program; it proves nothing about the result. Its depth
 * is PLAN_DEPTH_MAX. The caller frees the plan and the lines. */
coll_status_t msccl_import(const msccl_file_t *file, plan_t **plan, msccl_lines_t *lines);

/* Scratch of a plan under construction: chunks [0, real[rank]) are the file's, the others hold
 * received operands of one lane for one step. */
typedef struct msccl_scratch {
  const char *file_name;
  const msccl_lines_t *lines;
  int32_t *real;  /* [ranks] */
  int32_t *total; /* [ranks] */
  int32_t **lane; /* [ranks][total - real]: the lane of each chunk that is not the file's */
  size_t *lane_capacity;
} msccl_scratch_t;

/* Renumbers the scratch chunks of all spans, so that each chunk's number modulo `parts` is that of
 * the data in it, and sets plan->scratch_chunks. COLL_ERROR_INVALID if a chunk holds data of
 * different sizes. */
coll_status_t msccl_place_scratch(const msccl_scratch_t *scratch, plan_t *plan);

/* Writes a plan that only passes messages as XML. COLL_ERROR_UNSUPPORTED states the first step that
 * MSCCL has no word for. Reductions of several operands become chains, a lane with several peers
 * several blocks. */
coll_status_t msccl_export(const plan_t *plan, FILE *out);

#endif
