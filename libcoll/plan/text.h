/*
 * The text form of plans, to read, save, send and edit by hand. One step per line:
 *
 *     plan allreduce ring        # the collective and the algorithm's name
 *     ranks 2
 *     root 0
 *     parts 2                    # chunks per block
 *     scratch 1                  # chunks of scratch per rank
 *     lanes 1
 *     depth 1                    # messages a FIFO must hold
 *     message 1                  # most chunks in one message
 *     reach own                  # or scratch, user: which memory of peers a rank accesses
 *     multicast 0                # 1: every message goes to all peers; optional
 *     own_scratch 0              # 1: scratch has blocks of the rank's size (plan.h); optional
 *     order canonical            # or exact, fixed, any: the order of reductions; default fixed
 *
 *     rank 0                     # `rank 0 in-place` where INPUT and OUTPUT overlap
 *     lane 0                     # optional before the first lane
 *       copy output[0+2] <- input[0+2]              # chunks 0 and 1
 *       reduce output[0+1] <- input[0+1], 1.input[0+1]  # 1.: rank 1's memory
 *       send 1 <- output[1+1]
 *       recv 1:5 -> scratch[0+1]  # on channel 5; default: the channel of the lane's number
 *       signal 1
 *       wait 1
 *       after 1:4              # step 4 of lane 1, counted from 0
 *     rank 1
 *       ...
 *     end
 *
 * Header lines may be in any order. Blank lines, indentation and # comments are ignored. Ranks are
 * in ascending order; a rank that is left out has no steps. The `end` line marks a complete file.
 */
#ifndef PLAN_TEXT_H
#define PLAN_TEXT_H

#include <stdio.h>

#include "plan/plan.h"

#define PLAN_TEXT_PARTS_MAX 65536

/* Writes the whole plan, or the header and one rank's program. COLL_ERROR_SYSTEM if writing to the
 * stream fails. */
coll_status_t plan_text_write(const plan_t *plan, FILE *out);
coll_status_t plan_text_write_rank(const plan_t *plan, int rank, FILE *out);

/* Writes one step of the lane as its line, without indentation or newline. */
void plan_text_write_step(const plan_t *plan, int rank, int lane, const plan_step_t *step,
                          FILE *out);

/* Reads a plan and checks it by plan_check_program. COLL_ERROR_INVALID states `file_name:line:`,
 * what was found and what was expected. Memory use is bounded by a constant and the length of the
 * file. The caller frees the plan. */
coll_status_t plan_text_read(FILE *in, const char *file_name, plan_t **plan);

#endif
