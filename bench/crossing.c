/* Pieces are numbered from 1 on, over all calls; number n lies in slot (n - 1) % slots
 * until the partner has taken it. */
#include "bench/crossing.h"

#include <sched.h>
#include <string.h>

#include "base/atomics.h"
#include "base/names.h"

#define LOOKS 1000 /* at a piece, before a core is given up for once */

/* ---- what a rank gives, takes and keeps */

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

void bench_crossing_lap(bench_crossing_t *c, bool many) {
  size_t piece = c->bytes < c->piece_bytes ? c->bytes : c->piece_bytes;
  size_t beside = sizeof(((bench_slot_t *)NULL)->beside), behind = piece > beside ? piece : 0;
  c->slot_bytes = base_round_up(offsetof(bench_slot_t, payload) + behind, _Alignof(bench_slot_t));
  c->slots = many ? BENCH_LAP_BYTES / c->slot_bytes : BENCH_SLOTS_MIN;
  memset(c->own->slots, 0, sizeof c->own->slots); /* no byte of a payload is to pass for a number */
}

/* ---- a call */

static size_t least_of(size_t a, size_t b) {
  return a < b ? a : b;
}

static bench_slot_t *slot_of(const bench_crossing_t *c, bench_outbox_t *box, uint64_t piece) {
  return (bench_slot_t *)(void *)&box->slots[piece % c->slots * c->slot_bytes];
}

static char *payload_of(bench_slot_t *slot, size_t bytes) {
  return bytes <= sizeof slot->beside ? slot->beside : slot->payload;
}

/* Makes room now and then for a partner that has no core of its own. */
static void await(_Atomic uint64_t *count, uint64_t least) {
  for (int looks = 1; atomic_load_explicit(count, memory_order_acquire) < least; looks++) {
    base_cpu_relax();
    if (looks % LOOKS == 0) sched_yield();
  }
}

/* Slots too go past the caches by the mover that does that: to far cores it is the better way. */
static void move(bench_mover_t *mover, void *to, const void *from, size_t bytes) {
  mover(&to, 1, 0, &from, 1, bytes);
}

static void give(bench_crossing_t *c, const char *from, size_t bytes) {
  bench_slot_t *slot = slot_of(c, c->own, c->given);
  /* A rank that also takes gives no more than one piece ahead: it has taken the partner's last but
   * one, before which the partner has taken the one that lay here. */
  if (!c->takes && c->given >= c->slots) {
    await(&c->partners->taken, c->given + 1 - c->slots);
  }
  move(c->mover, payload_of(slot, bytes), from, bytes);
  atomic_store_explicit(&slot->piece, ++c->given, memory_order_release);
}

static void take(bench_crossing_t *c, char *to, size_t bytes) {
  bench_slot_t *slot = slot_of(c, c->partners, c->done);
  await(&slot->piece, c->done + 1);
  move(c->fetcher, to, payload_of(slot, bytes), bytes);
  if (!c->gives) atomic_store_explicit(&c->own->taken, c->done + 1, memory_order_release);
}

/* Up to the piece at `end`, and that one too. */
static void give_until(bench_crossing_t *c, const char *input, size_t end, size_t *given) {
  for (; *given < c->bytes && *given <= end; *given += c->piece_bytes) {
    give(c, input + *given, least_of(c->piece_bytes, c->bytes - *given));
  }
}

void bench_cross(bench_crossing_t *c, const char *input, char *output) {
  size_t ahead = c->takes ? c->piece_bytes : 0, given = 0;
  for (size_t at = 0; at < c->bytes; at += c->piece_bytes, c->done++) {
    size_t bytes = least_of(c->piece_bytes, c->bytes - at);
    if (c->gives) give_until(c, input, at + ahead, &given);
    if (at < c->kept_bytes) {
      move(c->mover, output + c->kept_to + at, input + c->kept_from + at,
           least_of(bytes, c->kept_bytes - at));
    }
    if (c->takes) take(c, output + at, bytes);
  }
}
