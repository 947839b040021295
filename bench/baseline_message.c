/* Chunks are numbered from 1 over all calls. Chunk n uses slot (n - 1) % slot_count until the
 * partner has received it. */
#include "bench/baseline_message.h"

#include <sched.h>
#include <string.h>

#include "base/atomics.h"
#include "base/names.h"

#define POLLS_PER_YIELD 1000

/* ---- what a rank sends, receives and copies locally */

static void plan_local_copy(coll_collective_t which, size_t block, bench_baseline_t *b) {
  bool own_block_is_last = which == COLL_ALLTOALL || which == COLL_SCATTER;
  b->local_bytes = which == COLL_BROADCAST ? b->bytes : block;
  b->local_from = own_block_is_last ? b->bytes : 0;
  b->local_to = b->receives ? b->bytes : 0;
}

void bench_baseline_plan(coll_collective_t which, size_t call_bytes, int ranks, bool even,
                         bench_baseline_t *b) {
  size_t block = call_bytes / (size_t)ranks;
  bool rooted = base_collective_is_rooted(which);
  bool to_root = which == COLL_REDUCE || which == COLL_GATHER;
  b->sends = !rooted || even != to_root;
  b->receives = !rooted || even == to_root;
  b->local_bytes = b->local_from = b->local_to = 0;
  switch (which) {
    case COLL_ALLREDUCE:
    case COLL_REDUCE:
    case COLL_SENDRECV:
    case COLL_BROADCAST: b->bytes = call_bytes; break;
    case COLL_ALLTOALL: b->bytes = block * (size_t)(ranks - 1); break;
    default: b->bytes = block; break;
  }
  bool reduces = which == COLL_ALLREDUCE || which == COLL_REDUCE || which == COLL_REDUCE_SCATTER;
  if (!reduces && which != COLL_SENDRECV && (even || !rooted)) plan_local_copy(which, block, b);
}

void bench_baseline_set_ring(bench_baseline_t *b, bool many) {
  size_t chunk = b->bytes < b->chunk_bytes ? b->bytes : b->chunk_bytes;
  size_t small = sizeof(((bench_slot_t *)NULL)->small), large = chunk > small ? chunk : 0;
  b->slot_bytes = base_round_up(offsetof(bench_slot_t, large) + large, _Alignof(bench_slot_t));
  b->slot_count = many ? BENCH_SLOT_RING_BYTES / b->slot_bytes : BENCH_SLOTS_MIN;
  /* Payload bytes of an earlier layout must not be read as a chunk's number. */
  memset(b->own->slots, 0, sizeof b->own->slots);
}

/* ---- a call */

static size_t min_size(size_t a, size_t b) {
  return a < b ? a : b;
}

static bench_slot_t *slot_of(const bench_baseline_t *b, bench_outbox_t *box, uint64_t chunk) {
  return (bench_slot_t *)(void *)&box->slots[chunk % b->slot_count * b->slot_bytes];
}

static char *payload_of(bench_slot_t *slot, size_t bytes) {
  return bytes <= sizeof slot->small ? slot->small : slot->large;
}

/* Yields now and then, in case the partner shares this core. */
static void wait_for(_Atomic uint64_t *counter, uint64_t value) {
  for (int polls = 1; atomic_load_explicit(counter, memory_order_acquire) < value; polls++) {
    base_cpu_relax();
    if (polls % POLLS_PER_YIELD == 0) sched_yield();
  }
}

/* A non-temporal kernel stores to slots around the caches too: between cores that share no cache
 * that is the faster way. */
static void copy(bench_copy_kernel_t *kernel, void *to, const void *from, size_t bytes) {
  kernel(&to, 1, 0, &from, 1, bytes);
}

static void send_chunk(bench_baseline_t *b, const char *from, size_t bytes) {
  bench_slot_t *slot = slot_of(b, b->own, b->sent);
  /* A rank that also receives needs no wait: it sends at most one chunk ahead of what it has
   * received. It has received the partner's last chunk but one, and the partner sent that after it
   * had received the chunk that was in this slot. */
  if (!b->receives && b->sent >= b->slot_count) {
    wait_for(&b->partner->received, b->sent + 1 - b->slot_count);
  }
  copy(b->store, payload_of(slot, bytes), from, bytes);
  atomic_store_explicit(&slot->number, ++b->sent, memory_order_release);
}

static void receive_chunk(bench_baseline_t *b, char *to, size_t bytes) {
  bench_slot_t *slot = slot_of(b, b->partner, b->done);
  wait_for(&slot->number, b->done + 1);
  copy(b->receive, to, payload_of(slot, bytes), bytes);
  if (!b->sends) atomic_store_explicit(&b->own->received, b->done + 1, memory_order_release);
}

/* Sends all chunks that begin at or before offset `last`. */
static void send_through(bench_baseline_t *b, const char *input, size_t last, size_t *sent) {
  for (; *sent < b->bytes && *sent <= last; *sent += b->chunk_bytes) {
    send_chunk(b, input + *sent, min_size(b->chunk_bytes, b->bytes - *sent));
  }
}

void bench_baseline_run(bench_baseline_t *b, const char *input, char *output) {
  size_t ahead = b->receives ? b->chunk_bytes : 0, sent = 0;
  for (size_t at = 0; at < b->bytes; at += b->chunk_bytes, b->done++) {
    size_t bytes = min_size(b->chunk_bytes, b->bytes - at);
    if (b->sends) send_through(b, input, at + ahead, &sent);
    if (at < b->local_bytes) {
      copy(b->store, output + b->local_to + at, input + b->local_from + at,
           min_size(bytes, b->local_bytes - at));
    }
    if (b->receives) receive_chunk(b, output + at, bytes);
  }
}
