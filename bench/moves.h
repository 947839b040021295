/*
 * The least that must be moved for a call among `ranks` ranks, as lists of moves over the ranks'
 * send and receive buffers: what any implementation has to load and store, and nothing else. The
 * ranks' work is done by `workers` cores, one or several ranks each. Pure; written from the
 * definitions in coll.h alone.
 */
#ifndef BENCH_MOVES_H
#define BENCH_MOVES_H

#include <coll.h>

#include <stdbool.h>
#include <stddef.h>

#define BENCH_MOVE_PLACES_MAX 64 /* sources, or destinations, of a move; ranks */

/* Who moves what. Pulled: by who wants it. Pushed: by who has it, to all who want it at once.
 * Staged: ranks cannot reach each other's buffers, so that what one has for others goes by way of
 * its slot, which all can reach. */
typedef enum bench_way { BENCH_PULLED, BENCH_PUSHED, BENCH_STAGED, BENCH_WAY_COUNT } bench_way_t;

typedef enum bench_side { BENCH_SEND, BENCH_RECV, BENCH_SLOT } bench_side_t;

typedef struct bench_place {
  bench_side_t side;
  int rank;
  size_t offset; /* bytes; 0 in a slot */
} bench_place_t;

/* dsts = the sum of the sources, or a copy where there is one. Slots come before other
 * destinations. */
typedef struct bench_move {
  size_t places; /* index of the first destination; the sources follow the destinations */
  int dst_count, source_count;
  size_t bytes;
} bench_move_t;

typedef struct bench_moves {
  bench_move_t *moves;
  size_t count, capacity;
  bench_place_t *places;
  size_t place_count, place_capacity;
} bench_moves_t;

/* A call: `bytes` in the larger of a rank's two buffers, root 0. */
typedef struct bench_moved_call {
  coll_collective_t collective;
  int ranks, workers;
  size_t bytes;
} bench_moved_call_t;

/* Whether the collective can be done that way, and not just as in another one. */
bool bench_moves_differ(coll_collective_t collective, bench_way_t way);

/* What one worker does. COLL_ERROR_MEMORY. */
coll_status_t bench_moves_make(const bench_moved_call_t *call, bench_way_t way, int worker,
                               bench_moves_t *moves);
void bench_moves_free(bench_moves_t *moves);

#endif
