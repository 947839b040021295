/*
 * The state of the brute-force interpreter, which its parts share: the call of each rank and its
 * memory (brute_call.c), and steps and actors (brute.c).
 */
#ifndef VERIFY_TEST_BRUTE_STATE_H
#define VERIFY_TEST_BRUTE_STATE_H

#include <stdint.h>

#include "brute.h"

#define BRUTE_SLOTS_MAX 8 /* slots of a FIFO, independent of the plan's depth */
#define BRUTE_RUNS_MAX 16 /* partial results of a reduction, of 1, 2, 4, … operands each */

/* The contents of a chunk: `sum` identifies the contributions in it, `hash` also the expression,
 * `rounded` also where it was brute_rounded. */
typedef struct brute_number {
  uint64_t sum, hash, rounded;
} brute_number_t;

typedef struct brute_lane {
  int32_t rank, lane, step;
  int32_t phase;                       /* reads and writes of the current step that are done */
  brute_number_t runs[BRUTE_RUNS_MAX]; /* operands of a reduction that were read and not yet
                              written; of a copy: [0] */
  int32_t lengths[BRUTE_RUNS_MAX], run_count;
  bool is_backwards; /* steps process their chunks from the last to the first */
} brute_lane_t;

typedef struct brute_fifo {
  int32_t pushed, popped, signals;
  struct {
    int32_t count, part;
    brute_number_t *numbers; /* [message_chunks] */
  } slots[BRUTE_SLOTS_MAX];
} brute_fifo_t;

typedef enum brute_call { CALL_OUTSIDE, CALL_INSIDE, CALL_LEFT } brute_call_t;

struct brute {
  const plan_t *plan;
  int32_t ranks, lane_count, actor_count;
  int32_t numbers_per_pair;            /* channels, or lanes if there are more */
  size_t (*offset)[PLAN_BUFFER_COUNT]; /* of each rank's buffers in memory[] */
  size_t (*extent)[2];                 /* [ranks]: first brute_cell and past the last */
  size_t cells;
  brute_number_t *memory;
  brute_call_t *calls; /* [ranks] */
  brute_lane_t *lanes;
  brute_fifo_t *fifos;     /* [ranks * ranks * numbers_per_pair] */
  brute_number_t *numbers; /* storage of the FIFOs' slots */
  brute_number_t *agreed;  /* [parts]: the allreduce result of the first rank that finished */
  bool has_agreed;
  int32_t depth;   /* FIFO depth in this run */
  uint64_t poison; /* changes from run to run */
  brute_fault_t fault;
};

/* Sets where the ranks' buffers begin and end in memory. */
void brute_lay_out(brute_t *brute);

brute_number_t *brute_cell(brute_t *brute, int32_t rank, plan_buffer_t buffer, int32_t chunk);
brute_number_t *brute_span_cell(brute_t *brute, const plan_span_t *span, int32_t index);

/* Fills a rank's memory with values that identify cell and state; check: whether it still holds
 * them. */
void brute_poison_rank(brute_t *brute, int32_t rank, brute_call_t call);
void brute_check_poison(brute_t *brute, int32_t rank, brute_call_t call);

/* The reduction of two operands, and the number that a store rounds it to. */
brute_number_t brute_combine(brute_number_t a, brute_number_t b);
brute_number_t brute_rounded(brute_number_t number);

/* A rank enters its call with fresh inputs; it leaves with its results, which are checked. */
void brute_enter(brute_t *brute, int32_t rank);
void brute_leave(brute_t *brute, int32_t rank);

#endif
