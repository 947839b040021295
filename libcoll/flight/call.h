/*
 * The identity of a call: two words that describe the call exactly. They travel with every message
 * and signal of the call, so that ranks whose calls differ detect it and can name both calls.
 *
 * `what` packs the call's number on its communicator (of a send or receive: on its pair of ranks),
 * the verb, dtype, op, root, a forced algorithm, and flags of its group. `count` is the full count.
 * Of the counts of allgatherv and reduce_scatterv, it has their sum and a digest. On the wire, the
 * count of a collective is offset by the history: a 64-bit digest of all collectives before it. So
 * ranks with equal histories compare their calls exactly, and ranks with different histories differ
 * in every later call, independent of what these calls are.
 */
#ifndef FLIGHT_CALL_H
#define FLIGHT_CALL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/inline.h"
#include "base/status.h"

typedef struct flight_call {
  uint64_t what, count;
} flight_call_t;

/* Verbs: those of coll_collective_t, then calls without a plan of their own. */
enum {
  FLIGHT_SPLIT = COLL_COLLECTIVE_COUNT,
  FLIGHT_PLAN_LOAD,
  FLIGHT_GPU_CONNECT, /* the first call of a communicator on GPUs */
  FLIGHT_WINDOW,      /* coll_window_create */
  FLIGHT_GPU_GROUP,   /* sends and receives in one launch on a GPU; of one rank alone */
  FLIGHT_SEND,        /* root: the destination */
  FLIGHT_RECV,        /* root: the source */
  FLIGHT_VERB_COUNT
};

#define FLIGHT_OP_PREMUL 14
#define FLIGHT_OP_NONE 15
#define FLIGHT_ALGO_MAX 63
#define FLIGHT_ALGO_LOADED FLIGHT_ALGO_MAX /* a plan of a file */

/* The fields of flight_call_t.what: the position of the lowest bit of each. */
enum {
  FLIGHT_COALESCED_SHIFT = 0,
  FLIGHT_CONTINUES_SHIFT = 1,
  FLIGHT_GPU_SHIFT = 2,
  FLIGHT_ALGO_SHIFT = 3,
  FLIGHT_OP_SHIFT = 9,
  FLIGHT_DTYPE_SHIFT = 13,
  FLIGHT_VERB_SHIFT = 17,
  FLIGHT_ROOT_SHIFT = 22,
  FLIGHT_NUMBER_SHIFT = 40
};

#define FLIGHT_NUMBER_BITS 24 /* call numbers are stored modulo 2^24 */
#define FLIGHT_ROOT_BITS 18

_Static_assert(FLIGHT_VERB_COUNT <= 32 && COLL_DTYPE_COUNT <= 16,
               "5 bits for the verb, 4 for dtype");
_Static_assert(COLL_OP_BUILTIN_COUNT <= FLIGHT_OP_PREMUL, "4 bits for the op");
_Static_assert(COLL_OP_BUILTIN_COUNT <= COLL_OP_CREATED_MIN,
               "created ops follow the built-in ones");

typedef struct flight_words {
  int verb;
  coll_dtype_t dtype;
  int op; /* a built-in op, FLIGHT_OP_PREMUL or FLIGHT_OP_NONE */
  int root;
  size_t count;
  int algo;       /* 1 + index of the forced algorithm, or FLIGHT_ALGO_LOADED; 0: none */
  bool continues; /* its group has a later collective on the same communicator */
  bool coalesced; /* it replaces several small collectives of a group */
  bool on_gpu;    /* which all ranks' calls are, or none */
} flight_words_t;

/* Of allgatherv and reduce_scatterv, the count holds the elements of all blocks, modulo 2^40, and
 * it and the root a digest of the counts. counts: [ranks]; NULL: each is `equal`. */
void flight_words_set_counts(flight_words_t *words, const size_t counts[], size_t equal, int ranks);

/* Packs the identity of a call with number 0, and unpacks an identity. */
flight_call_t flight_call_make(const flight_words_t *words);
flight_words_t flight_call_words(flight_call_t call);

/* The same call on GPUs. */
BASE_INLINE flight_call_t flight_call_on_gpu(flight_call_t call) {
  return (flight_call_t){call.what | UINT64_C(1) << FLIGHT_GPU_SHIFT, call.count};
}

/* Inserts the number of the call. */
BASE_INLINE uint64_t flight_what_at(uint64_t what, uint64_t number) {
  return what | number << FLIGHT_NUMBER_SHIFT;
}

/* Modulo 2^FLIGHT_NUMBER_BITS. */
BASE_INLINE uint32_t flight_call_number(flight_call_t call) {
  return (uint32_t)(call.what >> FLIGHT_NUMBER_SHIFT);
}

BASE_INLINE bool flight_call_is(flight_call_t a, flight_call_t b) {
  return ((a.what ^ b.what) | (a.count ^ b.count)) == 0;
}

/* The digest of all collectives up to and including this one. Their order matters. The
 * multiplications are those of SplitMix64 (Steele, Lea & Flood, Fast splittable pseudorandom number
 * generators, 2014). */
BASE_INLINE uint64_t flight_history_add(uint64_t history, flight_call_t call) {
  history = (history ^ call.what) * 0xbf58476d1ce4e5b9u;
  history = (history ^ history >> 31 ^ call.count) * 0x94d049bb133111ebu;
  return history ^ history >> 29;
}

#define FLIGHT_TEXT_BYTES 128

/* Describes the call, as in "allreduce(float32, sum, count 5)". call.count must be without history.
 * algo: the name of the forced algorithm if known, else NULL. */
void flight_call_describe(flight_call_t call, const char *algo, char *text, size_t bytes);

/* A call of a rank with its full number. */
typedef struct flight_seen {
  int rank;
  uint64_t number;
  flight_call_t call; /* its count is without history */
  const char *algo;   /* as in flight_call_describe */
} flight_seen_t;

/* Returns COLL_ERROR_MISMATCH with an error text that names both ranks and their calls. */
coll_status_t flight_mismatch(const flight_seen_t *one, const flight_seen_t *other);

#endif
