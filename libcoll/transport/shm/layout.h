/*
 * Where things lie in the one segment that the ranks of a communicator on this machine share. Every
 * word in it has one writer, named here; offsets follow from the number of ranks alone.
 *
 *   head       abort word, directory of the flight recorders
 *   posts      per rank the slots of its posts, without what does not fit a line
 *   per rank   control lines, flight recorder, why it gave up, what it has taken of each peer's
 *              posts, which FIFOs its peers have used, the rest of its own posts;
 *              then per source rank and channel a ring of signals and one of messages, then scratch
 *
 * A rank's region holds what is sent to it alone. The posts' slots lie together, because small
 * calls look at all of them, and few pages are quicker to find than many. Structures that different
 * ranks write are kept on separate pairs of cache lines, because the prefetcher of some processors
 * fetches lines in pairs.
 */
#ifndef TRANSPORT_SHM_LAYOUT_H
#define TRANSPORT_SHM_LAYOUT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "transport/ops.h"
#include "transport/shm/sched_hint.h"

#define SHM_LINE_PAIR 128
#define SHM_SLOTS 8 /* payloads of slot_bytes that a ring has bytes for, or more */
#define SHM_DESCS_MIN 8
#define SHM_GAP_SHARE 8   /* of a slot, that a gap takes at most */
#define SHM_MCAST_SLOTS 8 /* per rank; at least PLAN_DEPTH_MAX */
#define SHM_MCAST_BYTES ((size_t)32 << 10)
#define SHM_POPULATED_RANKS_MAX 16
#define SHM_P2P_UNTOLD_SHARE \
  4                         /* of the P2P descriptors, that are taken before their sender is told */
#define SHM_INLINE_BYTES 40 /* payload that travels in the cache line of its flag */
#define SHM_SIGNALS 16      /* in a FIFO of signals; a power of two, at least PLAN_SIGNALS_MAX */

/* Hot slots (hot.h); the stride from one to the next lets them use all sets of a cache. */
#define SHM_HOT_SLOTS 8
#define SHM_HOT_BYTES 1024u
#define SHM_HOT_STRIDE (SHM_HOT_BYTES + SHM_LINE_PAIR)

_Static_assert(SHM_MCAST_SLOTS >= PLAN_DEPTH_MAX && SHM_MCAST_SLOTS * 64 % SHM_LINE_PAIR == 0,
               "posts must hold as many, and leave no line to be shared");

typedef struct shm_head {
  /* Once the communicator is finished, 1 + the rank whose region says why. Any rank, by
   * compare-exchange from 0: the first to say so is believed. */
  _Alignas(SHM_LINE_PAIR) _Atomic uint32_t aborted;
  _Alignas(FLIGHT_DIRECTORY_OFFSET) flight_directory_t directory; /* rank 0, once */
} shm_head_t;

_Static_assert(sizeof(shm_head_t) == SHM_LINE_PAIR, "the head comes before the posts");
_Static_assert(offsetof(shm_head_t, directory) == FLIGHT_DIRECTORY_OFFSET, "tools look there");

typedef struct shm_control {
  /* What peers look at with every message changes rarely, and so lies apart from what changes with
   * every call. */
  _Alignas(SHM_LINE_PAIR) _Atomic uint32_t sleeping; /* owner: it is about to sleep */
  _Atomic uint32_t left;                             /* owner: it destroyed the communicator */
  /* Futex word. Any rank adds 1, and only while the owner sleeps. */
  _Alignas(SHM_LINE_PAIR) _Atomic uint32_t doorbell;
  shm_hint_t stand;         /* owner */
  flight_recorder_t flight; /* owner */
  /* Owner: why it finished the communicator, where it did; before it says so in the head. */
  _Atomic uint32_t reason_claimed; /* by the thread of the owner that writes it */
  transport_reason_t reason;
} shm_control_t;

/* Written by the source rank: sequence (n+1 for the n-th signal) last, with release. */
typedef struct shm_signal {
  _Alignas(32) _Atomic uint32_t sequence;
  flight_call_t call;
} shm_signal_t;

typedef struct shm_signals {
  _Alignas(SHM_LINE_PAIR) shm_signal_t slots[SHM_SIGNALS];
  _Alignas(SHM_LINE_PAIR) _Atomic uint32_t taken; /* owner: signals taken, modulo 2^32 */
} shm_signals_t;

_Static_assert(SHM_SIGNALS >= PLAN_SIGNALS_MAX, "a ring must hold what plans may count on");

/* Whether a peer has sent anything on a FIFO to the owner, ever; by the peer. So that a rank which
 * leaves need not look at all the memory of FIFOs that nobody used. */
typedef _Atomic uint8_t shm_used_t;

typedef struct shm_desc {
  flight_call_t call;
  union {
    _Alignas(8) char payload[SHM_INLINE_BYTES];
    struct {          /* of a longer one (fifo.h) */
      uint32_t place; /* where it begins, from the ring's first byte on */
      uint32_t end;   /* position behind it, or behind the latest one before it that has one */
      uint32_t asks;  /* whether the receiver is to tell that it has taken the message */
    };
  };
} shm_desc_t;

/* One message. Written by the source rank: the descriptor in one go, so that a peer which watches
 * the line takes it away but once, and sequence (n+1 for the n-th message, modulo 2^32) last, with
 * release. */
typedef struct shm_slot {
  _Alignas(64) _Atomic uint32_t sequence;
  uint32_t bytes; /* of the message */
  shm_desc_t descriptor;
} shm_slot_t;

_Static_assert(sizeof(shm_slot_t) == 64, "flag and inline payload share one cache line");

/* How far a ring's owner has come, modulo 2^32, in one word: messages taken out, and the position
 * behind the last payload of them. What comes before, the source rank may write over. */
typedef union shm_progress {
  uint64_t word;
  struct {
    uint32_t descriptors, position;
  };
} shm_progress_t;

typedef struct shm_ring {
  _Alignas(SHM_LINE_PAIR) _Atomic uint64_t taken; /* owner: shm_progress_t, now and then (fifo.h) */
  _Alignas(SHM_LINE_PAIR) shm_slot_t slots[]; /* source: descriptors, by shm_desc_slot (fifo.h) */
  /* Behind them the bytes of payloads and the hot slots, written by the source as well. */
} shm_ring_t;

/* Posts of a peer that the owner has taken, ever. */
typedef _Atomic uint64_t shm_taken_t;

typedef struct shm_layout {
  int size; /* ranks */
  size_t regions_offset;
  size_t taken_offset, used_offset, mcast_offset; /* within a rank's region */
  size_t slot_bytes;                              /* most bytes of one message */
  size_t mcast_bytes;                             /* of one post; 0: there are none */
  uint32_t descriptors[TRANSPORT_CHANNELS];       /* of a ring of the channel, a power of two */
  uint32_t ring_bytes[TRANSPORT_CHANNELS]; /* of payloads, of a ring of the channel; likewise */
  uint32_t gap_bytes; /* behind short payloads, where prefetchers ahead of their reader end */
  uint32_t hot_bytes; /* of all hot slots of a ring of channel 0; 0: there are none */
  size_t signals_offset, rings_offset, scratch_offset; /* within a rank's region */
  size_t scratch_bytes;
  size_t region_bytes;
  size_t segment_bytes;
} shm_layout_t;

void shm_layout_compute(int size, shm_layout_t *layout);

/* Where a communicator's recorders lie. `communicator` is random. */
void shm_layout_direct(const shm_layout_t *layout, void *base, uint64_t communicator);

/* Of a ring of the channel: its hot slots, and from it to the next; in bytes. */
static inline uint32_t shm_layout_hot_bytes(const shm_layout_t *layout, int channel) {
  return channel == 0 ? layout->hot_bytes : 0;
}

/* Whether a ring's first payload brings the pages of all of it: not where there are many rings, of
 * which each may carry little. */
static inline bool shm_layout_populates(const shm_layout_t *layout) {
  return layout->size <= SHM_POPULATED_RANKS_MAX;
}

static inline size_t shm_layout_ring_stride(const shm_layout_t *layout, int channel) {
  return sizeof(shm_ring_t) + layout->descriptors[channel] * sizeof(shm_slot_t) +
         layout->ring_bytes[channel] + shm_layout_hot_bytes(layout, channel);
}

/* The parts of rank `owner`'s region in the segment at `base`; `source` and channel name the FIFO.
 */
shm_head_t *shm_layout_head(void *base);
shm_control_t *shm_layout_control(const shm_layout_t *layout, void *base, int owner);
shm_signals_t *shm_layout_signals(const shm_layout_t *layout, void *base, int owner, int source,
                                  int channel);
shm_ring_t *shm_layout_ring(const shm_layout_t *layout, void *base, int owner, int source,
                            int channel);
/* The slot of a rank's `message`-th post (taken modulo SHM_MCAST_SLOTS), the place for its bytes
 * where they do not fit the slot, and how many of rank source's posts the owner has taken. */
shm_slot_t *shm_layout_mcast(void *base, int source, uint64_t message);
void *shm_layout_mcast_bytes(const shm_layout_t *layout, void *base, int source, uint64_t message);
shm_taken_t *shm_layout_taken(const shm_layout_t *layout, void *base, int owner, int source);
shm_used_t *shm_layout_used(const shm_layout_t *layout, void *base, int owner, int source,
                            int channel);

void *shm_layout_scratch(const shm_layout_t *layout, void *base, int owner);

static inline char *shm_layout_ring_bytes(const shm_layout_t *layout, int channel,
                                          shm_ring_t *ring) {
  return (char *)&ring->slots[layout->descriptors[channel]];
}

#endif
