/* Pieces are numbered from 1 on, over all calls; number n lies in slot (n - 1) % BENCH_SLOT_COUNT
 * until the partner has taken it. */
#include "bench/crossing.h"

#include <string.h>

#include "base/atomics.h"
#include "base/names.h"

/* ---- what a rank gives, takes and keeps
 * ---------------------------------------------------------*/

static void plan_kept(coll_collective_t which, size_t block, bench_crossing_t *c) {
  bool apart = which == COLL_ALLTOALL || which == COLL_SCATTER; /* from what goes to others */
  c->kept_bytes = which == COLL_BROADCAST ? c->bytes : block;
  c->kept_from = apart ? c->bytes : 0;
  c->kept_to = c->takes ? c->bytes : 0;
}

void bench_crossing_plan(coll_collective_t which, size_t call_bytes, int ranks, bool even,
                         bench_crossing_t *c) {
  size_t block = call_bytes / (size_t)ranks;
  bool rooted = base_collective_is_rooted(which);
  bool to_root = which == COLL_REDUCE || which == COLL_GATHER;
  c->gives = !rooted || even != to_root;
  c->takes = !rooted || even == to_root;
  c->kept_bytes = c->kept_from = c->kept_to = 0;
  switch (which) {
    case COLL_ALLREDUCE:
    case COLL_REDUCE:
    case COLL_BROADCAST: c->bytes = call_bytes; break;
    case COLL_ALLTOALL: c->bytes = block * (size_t)(ranks - 1); break;
    default: c->bytes = block; break;
  }
  bool reduces = which == COLL_ALLREDUCE || which == COLL_REDUCE || which == COLL_REDUCE_SCATTER;
  if (!reduces && (even || !rooted)) plan_kept(which, block, c);
}

/* ---- a call
 * -------------------------------------------------------------------------------------*/

static size_t least_of(size_t a, size_t b) {
  return a < b ? a : b;
}

static char *payload_of(bench_slot_t *slot, size_t bytes) {
  return bytes <= sizeof slot->beside ? slot->beside : slot->payload;
}

static void await(_Atomic uint64_t *count, uint64_t least) {
  while (atomic_load_explicit(count, memory_order_acquire) < least) base_cpu_relax();
}

static void move(const bench_crossing_t *c, void *to, const void *from, size_t bytes) {
  c->mover(&to, 1, 0, &from, 1, bytes);
}

static void give(bench_crossing_t *c, const char *from, size_t bytes) {
  bench_slot_t *slot = &c->own->slots[c->pieces % BENCH_SLOT_COUNT];
  /* where both give, a partner's piece says that it has taken those before */
  if (!c->takes && c->pieces >= BENCH_SLOT_COUNT) {
    await(&c->partners->taken, c->pieces + 1 - BENCH_SLOT_COUNT);
  }
  memcpy(payload_of(slot, bytes), from, bytes);
  atomic_store_explicit(&slot->piece, c->pieces + 1, memory_order_release);
}

static void take(bench_crossing_t *c, char *to, size_t bytes) {
  bench_slot_t *slot = &c->partners->slots[c->pieces % BENCH_SLOT_COUNT];
  await(&slot->piece, c->pieces + 1);
  move(c, to, payload_of(slot, bytes), bytes);
  if (!c->gives) atomic_store_explicit(&c->own->taken, c->pieces + 1, memory_order_release);
}

void bench_cross(bench_crossing_t *c, const char *input, char *output) {
  for (size_t done = 0; done < c->bytes; done += c->piece_bytes) {
    size_t bytes = least_of(c->piece_bytes, c->bytes - done);
    if (c->gives) give(c, input + done, bytes);
    if (done < c->kept_bytes) {
      move(c, output + c->kept_to + done, input + c->kept_from + done,
           least_of(bytes, c->kept_bytes - done));
    }
    if (c->takes) take(c, output + done, bytes);
    c->pieces++;
  }
}
