/*
 * Embeds a plan for a few ranks in a plan for more: a phase of a composed algorithm (compose.h) is
 * a one-dimensional algorithm among the ranks of a line, with its ranks and its chunks renamed. A
 * block of the embedded plan is a run of chunks of the embedding one, cut evenly. Only plans that
 * send messages to one peer at a time can be embedded, and barriers.
 */
#ifndef ALGO_COMPOSE_EMBED_H
#define ALGO_COMPOSE_EMBED_H

#include "algo/algo.h"

/* Where a buffer of the embedded plan is: its chunks follow each other from `first` on, or chunk c
 * is the chunk at[c]. */
typedef struct algo_place {
  plan_buffer_t buffer;
  int32_t first;
  const int32_t *at; /* NULL: consecutive; else block_chunks is 1 */
} algo_place_t;

typedef struct algo_phase {
  const algo_t *algo;
  int32_t size, index;  /* ranks of the line, and the place of this rank in it */
  const int32_t *ranks; /* [size] */
  int32_t root;         /* index of the root; 0 where there is none */
  bool in_place;        /* the places of INPUT and OUTPUT overlap as in an in-place call */
  algo_place_t input, output;
  int32_t block_chunks; /* in a block of the phase; a multiple of the parts of its plan */
  int32_t stride;       /* between chunks that follow each other; more than 1: of blocks of 1 */
  int32_t scratch;      /* first chunk of SCRATCH for the phase, a multiple of parts */
  bool in_one_block; /* what the phase works on is one block of the embedding plan, or parts of one,
                        from chunk `vector` of the block on; so its chunks differ in size, and
                        SCRATCH is used at places that are equal modulo parts */
  int32_t vector;
  int32_t lane, lanes; /* the lanes of the embedding plan that it may use: `lanes` from `lane` on */
} algo_phase_t;

/* What a phase needs of the header. Depends on the algorithm, size and root only. */
typedef struct algo_needs {
  int32_t parts;          /* chunks per block of the phase */
  int32_t message_chunks; /* in chunks of the phase */
  int32_t
      scratch_chunks; /* in chunks of the phase; in_one_block: in blocks of the embedding plan */
  int32_t lanes, depth;
} algo_needs_t;

/* COLL_ERROR_INVALID: the algorithm cannot be embedded so. */
coll_status_t algo_phase_needs(const algo_t *algo, int32_t size, int32_t root, bool in_one_block,
                               algo_needs_t *needs);

/* Emits the steps of this rank. A phase starts when all its lanes have ended what they did before.
 */
void algo_emit_phase(plan_emitter_t *e, const algo_phase_t *phase);

#endif
