/*
 * A question is a test case: a collective call with its inputs and its expected result. The inputs
 * of all ranks follow from a seed, and the expected result is computed one element at a time from
 * the definition of the collective, without code of plans and devices. Inputs are chosen so that
 * results are exact in every dtype, in any order of reduction.
 */
#ifndef TESTS_HARNESS_QUESTION_H
#define TESTS_HARNESS_QUESTION_H

#include <coll.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define QUESTION_RANKS_MAX 16
#define QUESTION_TEXT_BYTES 200

typedef struct question {
  coll_collective_t collective; /* COLL_SENDRECV: a shift to the next rank */
  int size, root;
  size_t count; /* elements of a block; where blocks differ in size, of the largest that may be */
  coll_dtype_t dtype;
  coll_op_t op;
  uint64_t seed;
} question_t;

/* Elements of a rank's buffers; 0 if the rank has no such buffer. */
size_t question_input_elements(const question_t *q, int rank);
size_t question_output_elements(const question_t *q, int rank);

/* alltoallv: elements that one rank sends to another, from 0 to `count`. */
size_t question_pair_count(const question_t *q, int from, int to);

/* allgatherv, reduce_scatterv, gatherv, scatterv: elements of a rank's block, from 0 to `count`; of
 * some seeds, `count` of all. */
size_t question_rank_count(const question_t *q, int rank);

/* A rank's counts and displacements, each [q->size], of the blocks that it has if it is the root.
 * Between the blocks of alltoallv are gaps; of the others, at some ranks, but not of
 * reduce_scatterv. */
void question_layout(const question_t *q, int rank, size_t send_counts[], size_t send_displs[],
                     size_t recv_counts[], size_t recv_displs[]);

/* The offset in the rank's output, in elements, at which an in-place call has its input (negative:
 * the output lies that far inside the input). False if the collective or the rank has no in-place
 * form. */
bool question_in_place(const question_t *q, int rank, ptrdiff_t *offset);

/* Fills in the rank's input. */
void question_fill(const question_t *q, int rank, void *input);

/* Whether the output is the expected one; if not, `text` describes the first wrong element. */
bool question_answered(const question_t *q, int rank, const void *output,
                       char text[QUESTION_TEXT_BYTES]);

/* Describes the test case: "allreduce(10 float32, sum, root 0) of 4 ranks, seed 7". */
void question_describe(const question_t *q, char text[QUESTION_TEXT_BYTES]);

#endif
