/*
 * Ranks on virtual GPUs. Each rank has a thread, its stream, which launches one call after another,
 * whatever its peers are doing.
 */
#ifndef TESTS_GPU_RANKS_H
#define TESTS_GPU_RANKS_H

#include "algo/algo.h"
#include "device/cuda/bind.h"
#include "gpu/virtual.h"
#include "harness/question.h"

#define RANKS_TEXT_BYTES 640

typedef struct ranks ranks_t;

/* As ranks_launch. */
typedef bool (*ranks_launch_t)(ranks_t *ranks, int rank, const gpu_program_t *program,
                               const gpu_request_t *request, int slices, uint64_t seed);

struct ranks {
  gpu_room_t room;
  gpu_rank_t ranks[QUESTION_RANKS_MAX];
  char *arenas[QUESTION_RANKS_MAX];
  uint32_t abort, failed[QUESTION_RANKS_MAX];
  gpu_record_t *records[QUESTION_RANKS_MAX];
  virtual_device_t device; /* of all ranks */
  ranks_launch_t launch;   /* NULL: ranks_launch_kernel */
};

/* The room of most tests: small, so that calls take several passes. */
gpu_room_t ranks_room(int size);

/* Aborts if memory is lacking. */
void ranks_init(ranks_t *ranks, const gpu_room_t *room, uint32_t capacity);
void ranks_free(ranks_t *ranks);

/* The program of a rank for an algorithm of that name, with root 0; freed by the caller. */
gpu_program_t *ranks_program(coll_collective_t collective, const char *algorithm, int size,
                             int rank);

/* Sets up one rank, whose room and arena are set. Allocates ranks->records[rank]. */
void ranks_init_rank(ranks_t *ranks, int rank);

/* Runs a thread per rank, calls run(context, rank) in it, and joins them. Sets the abort word when
 * a rank has failed, as a communicator does. If they have not ended in a minute, sets the abort
 * word and returns false. */
bool ranks_run(ranks_t *ranks, void (*run)(void *context, int rank), void *context);

/* Carries out a call of a rank to its end. False: it is refused, with the reason in
 * base_last_error(). */
bool ranks_launch(ranks_t *ranks, int rank, const gpu_program_t *program,
                  const gpu_request_t *request, int slices, uint64_t seed);

/* The same by the kernel, on the virtual GPU. */
bool ranks_launch_kernel(ranks_t *ranks, int rank, const gpu_program_t *program,
                         const gpu_request_t *request, int slices, uint64_t seed);

typedef enum ranks_place {
  RANKS_OUT_OF_PLACE,
  RANKS_IN_PLACE,
  RANKS_MIXED, /* odd ranks in place */
  RANKS_PLACE_COUNT
} ranks_place_t;

typedef struct ranks_call {
  const algo_t *algo;
  const topo_layout_t *layout; /* or NULL */
  question_t question;
  ranks_place_t place;
  int slices;
  gpu_protocol_t protocol;
} ranks_call_t;

/* A rank's buffers of a call. */
typedef struct ranks_buffers {
  char *input, *output, *memory[2];
  /* alltoallv: counts and offsets of the input, then of the output */
  size_t blocks[4][QUESTION_RANKS_MAX];
  size_t count; /* of the request */
  bool in_place;
} ranks_buffers_t;

/* Allocates them, spoiled. */
void ranks_buffers_allocate(const ranks_call_t *call, int rank, uint64_t *random,
                            ranks_buffers_t *b);

/* Allocates and fills them. */
void ranks_buffers_make(const ranks_call_t *call, int rank, uint64_t *random, ranks_buffers_t *b);

/* Whether the call has answered the question and left its input alone; if not, says what is wrong.
 */
bool ranks_buffers_check(const question_t *q, int rank, const ranks_buffers_t *b,
                         char text[QUESTION_TEXT_BYTES]);
void ranks_buffers_free(ranks_buffers_t *b);

/* Makes a call by every algorithm of at most that reach for the shape's size and layout, with
 * everything else drawn at random. Returns how many, at most RANKS_ROW_MAX. */
#define RANKS_ROW_MAX 256
int ranks_row_within(uint64_t *random, const plan_shape_t *shape, plan_reach_t reach,
                     ranks_call_t row[RANKS_ROW_MAX]);

/* Of those that access no users' buffers of peers. */
int ranks_row(uint64_t *random, const plan_shape_t *shape, ranks_call_t row[RANKS_ROW_MAX]);

/* Carries out the calls in order. Every rank's buffers are allocated before, so that plans may
 * access them, and filled when the rank makes the call. Returns false, with a sentence, at the
 * first wrong element, changed input, refusal or deadlock. */
bool ranks_carry_out(ranks_t *ranks, const ranks_call_t calls[], int count, uint64_t seed,
                     char text[RANKS_TEXT_BYTES]);

/* The same; each rank has calls of its own. Returns true also if kernels ended early. */
bool ranks_carry_out_each(ranks_t *ranks, const ranks_call_t *const calls[], int count,
                          uint64_t seed, char text[RANKS_TEXT_BYTES]);

/* What all ranks must agree on in the call. */
gpu_words_t ranks_words(const ranks_call_t *call);

/* The same for one rank, in the calling thread; its peers are in other processes. */
bool ranks_carry_out_rank(ranks_t *ranks, int rank, const ranks_call_t calls[], int count,
                          uint64_t seed, char text[RANKS_TEXT_BYTES]);

#endif
