/*
 * The bare bones of a call between two ranks that do not reach each other's memory: what one must
 * take in crosses piece by piece, by way of slots that the other stores to and it loads from, and
 * what a rank keeps it copies for itself. Nothing is looked up, chosen or checked.
 */
#ifndef BENCH_CROSSING_H
#define BENCH_CROSSING_H

#include <coll.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/memory.h"
#include "bench/movers.h"

enum {
  BENCH_SLOT_BYTES = 64 << 10,
  BENCH_SLOT_BYTES_MIN = 16 << 10,
  BENCH_SLOTS_MIN = 4,
  BENCH_LAP_BYTES = 1 << 20 /* what a core's own caches hold, and so no longer have on a next lap */
};

/* One piece, and which, counted from 1. Small ones lie beside the number, others behind it. */
typedef struct bench_slot {
  _Alignas(2 * BASE_CACHE_LINE) _Atomic uint64_t piece;
  char beside[BASE_CACHE_LINE - sizeof(uint64_t)];
  char payload[];
} bench_slot_t;

/* Written by one rank alone; all zeros at first. */
typedef struct bench_outbox {
  _Alignas(2 * BASE_CACHE_LINE) char slots[BENCH_LAP_BYTES]; /* end to end */
  _Alignas(2 * BASE_CACHE_LINE) _Atomic uint64_t taken;      /* pieces of the partner's */
} bench_outbox_t;

/* One rank's part. Begin with {0}. */
typedef struct bench_crossing {
  bench_outbox_t *own, *partners;
  uint64_t given, done; /* pieces, over all calls */
  bool gives, takes;
  size_t bytes, kept_bytes;       /* of a call; no more is kept than crosses */
  size_t kept_from, kept_to;      /* where they lie in its buffers */
  size_t piece_bytes;             /* in which they cross: at most BENCH_SLOT_BYTES */
  size_t slot_bytes;              /* from one slot to the next */
  uint64_t slots;                 /* that are gone around */
  bench_mover_t *mover, *fetcher; /* of what is stored; of what the partner has stored */
} bench_crossing_t;

/* Lays out slots for pieces of piece_bytes, as few or as many as can be, in the rank's own outbox,
 * which the partner looks at no sooner than this is done, and in the partner's. With nothing given
 * that is not taken. */
void bench_crossing_lap(bench_crossing_t *crossing, bool many);

/* Sets what a rank gives, takes and keeps in a call of call_bytes (as bench_collective_bytes), for
 * the even or the odd one of two partners; the even one is the root where there is one. */
void bench_crossing_plan(coll_collective_t which, size_t call_bytes, int ranks, bool even,
                         bench_crossing_t *crossing);

/* One call: from the rank's input and to its output, either of which may be NULL where the rank has
 * no use for it. The partner must make the same one. */
void bench_cross(bench_crossing_t *crossing, const char *input, char *output);

#endif
