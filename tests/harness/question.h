/*
 * A collective call with its data and its answer: what every rank puts in follows from a seed, and
 * what must come out is worked out one element at a time from the definition of the collective. It
 * shares nothing with plans and devices. Inputs are such that results are exact in every dtype, in
 * whatever order they are reduced.
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
  size_t count; /* elements of a block; alltoallv: of the largest */
  coll_dtype_t dtype;
  coll_op_t op;
  uint64_t seed;
} question_t;

/* Elements of a rank's buffers; 0 where the collective gives it none. */
size_t question_input_elements(const question_t *q, int rank);
size_t question_output_elements(const question_t *q, int rank);

/* alltoallv: elements that one rank sends to another: anything from none to `count`. */
size_t question_pair_count(const question_t *q, int from, int to);

/* alltoallv: a rank's counts, and displacements that leave gaps, to and from each of q->size. */
void question_layout(const question_t *q, int rank, size_t send_counts[], size_t send_displs[],
                     size_t recv_counts[], size_t recv_displs[]);

/* Where in its output an in-place call has the rank's input, in elements (negative: the output lies
 * that far inside the input). False where the collective or the rank cannot be in place. */
bool question_in_place(const question_t *q, int rank, ptrdiff_t *offset);

/* Writes the rank's input. */
void question_fill(const question_t *q, int rank, void *input);

/* Whether the output is right; if not, says which element is wrong first. */
bool question_answered(const question_t *q, int rank, const void *output,
                       char text[QUESTION_TEXT_BYTES]);

/* "allreduce(10 float32, sum, root 0) of 4 ranks, seed 7" */
void question_describe(const question_t *q, char text[QUESTION_TEXT_BYTES]);

#endif
