/*
 * Baseline of a call between two ranks that cannot access each other's buffers: the data travel in
 * chunks through slots in shared memory, which one rank stores to and the other loads from, and
 * each rank copies its own block locally. There is no lookup, no choice of algorithm and no check.
 */
#ifndef BENCH_BASELINE_MESSAGE_H
#define BENCH_BASELINE_MESSAGE_H

#include <coll.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/alloc.h"
#include "bench/copy_kernel.h"

enum {
  BENCH_CHUNK_BYTES_MAX = 64 << 10,
  BENCH_CHUNK_BYTES_MIN = 16 << 10,
  BENCH_SLOTS_MIN = 4,
  /* As much as a core's private caches hold: a slot has left the caches when it is reused. */
  BENCH_SLOT_RING_BYTES = 1 << 20
};

/* One chunk and its number, counted from 1. A small chunk shares the cache line of the number. */
typedef struct bench_slot {
  _Alignas(2 * BASE_CACHE_LINE) _Atomic uint64_t number;
  char small[BASE_CACHE_LINE - sizeof(uint64_t)];
  char large[];
} bench_slot_t;

/* Shared memory that one rank alone writes; all zeros at first. */
typedef struct bench_outbox {
  _Alignas(2 * BASE_CACHE_LINE) char slots[BENCH_SLOT_RING_BYTES]; /* one after the other */
  _Alignas(2 * BASE_CACHE_LINE) _Atomic uint64_t received;         /* chunks from the partner */
} bench_outbox_t;

/* The state of one rank. Initialize it with {0}. */
typedef struct bench_baseline {
  bench_outbox_t *own, *partner;
  uint64_t sent, done; /* chunks, over all calls; done: received, or not to be received */
  bool sends, receives;
  size_t bytes, local_bytes;            /* per call: transferred, copied locally (not more) */
  size_t local_from, local_to;          /* offsets of the local copy in input and output */
  size_t chunk_bytes;                   /* at most BENCH_CHUNK_BYTES_MAX */
  size_t slot_bytes;                    /* from one slot to the next */
  uint64_t slot_count;                  /* slots of the ring that are in use */
  bench_copy_kernel_t *store, *receive; /* for all stores; for the copy out of a slot */
} bench_baseline_t;

/* Lays out the ring of slots for chunks of chunk_bytes: BENCH_SLOTS_MIN slots, or with `many` all
 * that fit. Clears the rank's own outbox: no chunk may be in flight, and the partner must not read
 * the outbox before this returns. */
void bench_baseline_set_ring(bench_baseline_t *baseline, bool many);

/* Sets what a rank sends, receives and copies locally in a call of call_bytes (as
 * bench_collective_bytes). `even`: this is the even-numbered one of the two partners, which is the
 * root of a rooted collective. */
void bench_baseline_plan(coll_collective_t which, size_t call_bytes, int ranks, bool even,
                         bench_baseline_t *baseline);

/* Makes one call. input and output may be NULL where the rank has no use for them. The partner must
 * make the same call. */
void bench_baseline_run(bench_baseline_t *baseline, const char *input, char *output);

#endif
