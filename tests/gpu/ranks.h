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

typedef struct ranks {
  gpu_room_t room;
  gpu_rank_t ranks[QUESTION_RANKS_MAX];
  char *arenas[QUESTION_RANKS_MAX];
  uint32_t abort, failed[QUESTION_RANKS_MAX];
  virtual_device_t device; /* of all ranks */
} ranks_t;

/* The room of most tests: small, so that calls take several passes. */
gpu_room_t ranks_room(int size);

/* Aborts if memory is lacking. */
void ranks_init(ranks_t *ranks, const gpu_room_t *room, uint32_t capacity);
void ranks_free(ranks_t *ranks);

/* Runs a thread per rank, calls run(context, rank) in it, and joins them. If they have not ended in
 * a minute, sets the abort word and returns false. */
bool ranks_run(ranks_t *ranks, void (*run)(void *context, int rank), void *context);

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
} ranks_call_t;

/* Carries out the calls in order. Returns false, with a sentence, at the first wrong element,
 * changed input, refusal or deadlock. */
bool ranks_carry_out(ranks_t *ranks, const ranks_call_t calls[], int count, uint64_t seed,
                     char text[RANKS_TEXT_BYTES]);

#endif
