/*
 * Layout of the one shared-memory segment of the ranks of a communicator on one machine. Every word
 * has one writer, named here; offsets follow from the number of ranks alone.
 *
 *   head       abort word, directory of the flight recorders
 *   multicast  per rank the slots of its multicast messages, without payloads longer than a slot
 *   per rank   control words; flight recorder and reason for aborting; count of each peer's
 *              multicast messages taken; flags of the FIFOs used by peers; payloads of its own
 *              multicast messages; per source rank and channel a ring of signals and a ring of
 *              messages; scratch
 *
 * Few ranks have these parts one after another in a region of their own. With many ranks, parts of
 * one kind are together, those of all ranks one after another: a region would be so long that the
 * page tables of a process have a page or two of their own for each peer that it accesses.
 *
 * Behind it, further channels (TRANSPORT_CHANNELS and more) have a part of the segment each, per
 * rank and source rank a ring of signals and a ring of messages. The segment grows by a part when
 * a rank first uses the channel (channels.c).
 *
 * The multicast slots of all ranks are adjacent, because small calls poll all of them and few pages
 * need few TLB entries. Structures written by different ranks are on separate pairs of cache lines,
 * because the prefetchers of some processors fetch lines in pairs.
 */
#ifndef TRANSPORT_SHM_LAYOUT_H
#define TRANSPORT_SHM_LAYOUT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "transport/get.h"
#include "transport/ops.h"
#include "transport/shm/sched_hint.h"
#include "transport/shm/shm.h"

#define SHM_LINE_PAIR 128
#define SHM_SLOTS 8 /* minimum size of a ring, in payloads of slot_bytes */
#define SHM_DESCS_MIN 8
#define SHM_PADDING_DIVISOR 8 /* padding is at most slot_bytes / this */
#define SHM_MCAST_SLOTS 8     /* per rank; at least TRANSPORT_DEPTH */
#define SHM_MCAST_BYTES ((size_t)32 << 10)
#define SHM_POPULATED_RANKS_MAX 16    /* see shm_layout_populates */
#define SHM_POPULATED_P2P_RANKS_MAX 4 /* P2P rings are longer */
#define SHM_P2P_UNACKED_DIVISOR \
  4 /* 1 / this of the P2P descriptors may be taken without an acknowledgement */
#define SHM_INLINE_BYTES \
  40                   /* longest payload stored in the descriptor, in the cache line of the flag */
#define SHM_SIGNALS 16 /* signals per FIFO; a power of two, at least PLAN_SIGNALS_MAX */

/* Hot slots (hot.h). The stride spreads them over all sets of a cache. */
#define SHM_HOT_SLOTS 8
#define SHM_HOT_BYTES 1024u
#define SHM_HOT_STRIDE (SHM_HOT_BYTES + SHM_LINE_PAIR)

_Static_assert(SHM_MCAST_SLOTS >= TRANSPORT_DEPTH && SHM_MCAST_SLOTS * 64 % SHM_LINE_PAIR == 0,
               "a multicast FIFO must hold TRANSPORT_DEPTH messages, in whole pairs of lines");

typedef struct shm_head {
  /* 0, or 1 + the rank whose record holds the reason for the abort. Any rank writes it, by
   * compare-exchange from 0: the first wins. */
  _Alignas(SHM_LINE_PAIR) _Atomic uint32_t aborted;
  _Alignas(FLIGHT_DIRECTORY_OFFSET) flight_directory_t directory; /* written by rank 0, once */
} shm_head_t;

_Static_assert(sizeof(shm_head_t) == SHM_LINE_PAIR, "the head comes before the multicast slots");
_Static_assert(offsetof(shm_head_t, directory) == FLIGHT_DIRECTORY_OFFSET, "tools read it there");

typedef struct shm_control {
  /* Words that peers read with every message change rarely, so they are on other lines than words
   * that change with every call. */
  _Alignas(SHM_LINE_PAIR) _Atomic uint32_t sleeping; /* owner: it sleeps or is about to */
  _Atomic uint32_t left;                             /* owner: it has destroyed the communicator */
  /* Futex word. Any rank adds 1, only while the owner sleeps. */
  _Alignas(SHM_LINE_PAIR) _Atomic uint32_t doorbell;
  transport_probe_t probe; /* owner: before the communicator is complete */
  _Atomic uint64_t
      process;           /* owner: its process (presence.h), once it holds its lock; 0: not yet */
  uint64_t pid_space;    /* owner, before that: its pid namespace; 0: unknown */
  _Atomic uint32_t gets; /* owner: it can read the memory of all peers */
  shm_hint_t sched_hint; /* owner */
} shm_control_t;

/* Written by the owner. Apart from the control words, which peers read of all ranks. */
typedef struct shm_record {
  flight_recorder_t flight;
  /* Its reason for aborting, written before it sets `aborted` in the head. */
  _Atomic uint32_t reason_claimed; /* set by the one thread of the owner that writes the reason */
  transport_reason_t reason;
} shm_record_t;

/* Written by the source rank: the call first, then sequence (n+1 for signal n) with release. */
typedef struct shm_signal {
  _Alignas(32) _Atomic uint32_t sequence;
  flight_call_t call;
} shm_signal_t;

typedef struct shm_signals {
  _Alignas(SHM_LINE_PAIR) shm_signal_t slots[SHM_SIGNALS];
  _Alignas(SHM_LINE_PAIR) _Atomic uint32_t taken; /* owner: signals taken, modulo 2^32 */
} shm_signals_t;

_Static_assert(SHM_SIGNALS >= PLAN_SIGNALS_MAX,
               "a ring must hold the signals that plans may have in flight");

#define SHM_FURTHER_CHANNELS (TRANSPORT_CHANNELS_MAX - TRANSPORT_CHANNELS)

/* A word of a set of channels. A peer sets a channel's bit before it sends anything to the owner on
 * it. A rank that leaves checks only the FIFOs that were used, because reading the others would
 * touch all their memory. */
typedef _Atomic uint64_t shm_used_t;
#define SHM_USED_WORDS ((TRANSPORT_CHANNELS_MAX + 63) / 64)

typedef struct shm_desc {
  flight_call_t call;
  union {
    _Alignas(8) char payload[SHM_INLINE_BYTES];
    struct {           /* for a longer payload (fifo.h) */
      uint32_t offset; /* offset of the payload from the ring's first byte */
      uint32_t end; /* position of its end; for a hot slot, of the end of the latest payload in the
                       ring */
      uint32_t wants_ack; /* nonzero: the receiver acknowledges as soon as it takes the message */
    };
  };
} shm_desc_t;

/* One message. Written by the source rank: the descriptor in one burst, so that a polling peer
 * takes the line away only once, then sequence (n+1 for message n, modulo 2^32) with release. */
typedef struct shm_slot {
  _Alignas(64) _Atomic uint32_t sequence;
  uint32_t bytes; /* length of the message */
  shm_desc_t descriptor;
} shm_slot_t;

_Static_assert(sizeof(shm_slot_t) == 64, "flag and inline payload share one cache line");

/* What a ring's owner has taken, modulo 2^32, in one word: the number of messages, and the position
 * after the last payload of them. The source rank may overwrite everything before. */
typedef union shm_progress {
  uint64_t word;
  struct {
    uint32_t descriptors, position;
  };
} shm_progress_t;

typedef struct shm_ring {
  _Alignas(SHM_LINE_PAIR) _Atomic uint64_t
      taken; /* owner: shm_progress_t, at each acknowledgement (fifo.h) */
  _Alignas(SHM_LINE_PAIR)
      shm_slot_t slots[]; /* source: descriptors, indexed by shm_desc_slot (fifo.h) */
  /* The payload bytes and the hot slots follow, also written by the source. */
} shm_ring_t;

/* Number of a peer's multicast messages that the owner has taken. */
typedef _Atomic uint64_t shm_taken_t;

/* Where the parts of one kind are: that of rank r begins at offset + r * stride and consists of
 * items, one each `step` bytes. */
typedef struct shm_part {
  size_t offset, stride, step;
} shm_part_t;

typedef struct shm_layout {
  int size; /* ranks */
  shm_part_t controls, records;
  shm_part_t taken, used;   /* an item per peer */
  shm_part_t mcast;         /* payloads of multicast messages; an item per slot */
  shm_part_t mcast_short;   /* the same for payloads of up to mcast_short_bytes */
  size_t mcast_short_bytes; /* 0: all are in `mcast` */
  shm_part_t signals[TRANSPORT_CHANNELS], rings[TRANSPORT_CHANNELS]; /* an item per peer */
  shm_part_t scratch;
  size_t slot_bytes;  /* maximum length of a message */
  size_t mcast_bytes; /* maximum length of a multicast message; 0: no multicast */
  uint32_t descriptors[TRANSPORT_CHANNELS]; /* per ring of the channel; a power of two */
  uint32_t
      ring_bytes[TRANSPORT_CHANNELS]; /* payload bytes per ring of the channel; a power of two */
  uint32_t padding_bytes;             /* padding after short payloads (fifo.h) */
  uint32_t hot_bytes; /* bytes of all hot slots of a ring of channel 0; 0: no hot slots */
  size_t scratch_bytes;
  size_t rank_bytes;    /* of all parts of a rank */
  size_t segment_bytes; /* without further channels */
  /* Of a further channel, whose rings are like those of channel 1: bytes from one FIFO to the next,
   * and of all FIFOs. */
  size_t further_stride, further_bytes;
} shm_layout_t;

void shm_layout_compute(int size, shm_scope_t scope, shm_layout_t *layout);

/* Writes the directory by which tools find the flight recorders. `communicator` is a random number.
 * */
void shm_layout_write_directory(const shm_layout_t *layout, void *base, uint64_t communicator);

/* Bytes of the hot slots of a ring of the channel, and the distance from one ring to the next. */
static inline uint32_t shm_layout_hot_bytes(const shm_layout_t *layout, int channel) {
  return channel == 0 ? layout->hot_bytes : 0;
}

/* Whether the first payload populates the pages of the whole ring. Not with many ranks, where each
 * of the many rings may carry little. */
static inline bool shm_layout_populates(const shm_layout_t *layout, int channel) {
  bool p2p = channel == TRANSPORT_CHANNEL_P2P;
  return layout->size <= (p2p ? SHM_POPULATED_P2P_RANKS_MAX : SHM_POPULATED_RANKS_MAX);
}

static inline size_t shm_layout_ring_stride(const shm_layout_t *layout, int channel) {
  return sizeof(shm_ring_t) + layout->descriptors[channel] * sizeof(shm_slot_t) +
         layout->ring_bytes[channel] + shm_layout_hot_bytes(layout, channel);
}

/* Parts of rank `owner` in the segment at `base`; `source` and `channel` name the FIFO. */
shm_head_t *shm_layout_head(void *base);
shm_control_t *shm_layout_control(const shm_layout_t *layout, void *base, int owner);
shm_record_t *shm_layout_record(const shm_layout_t *layout, void *base, int owner);
shm_signals_t *shm_layout_signals(const shm_layout_t *layout, void *base, int owner, int source,
                                  int channel);
shm_ring_t *shm_layout_ring(const shm_layout_t *layout, void *base, int owner, int source,
                            int channel);
/* The slot of rank source's multicast message number `message` (taken modulo SHM_MCAST_SLOTS), the
 * place of its payload of `bytes` bytes if they do not fit into the slot, and the count of rank
 * source's messages that the owner has taken. */
shm_slot_t *shm_layout_mcast(void *base, int source, uint64_t message);
void *shm_layout_mcast_bytes(const shm_layout_t *layout, void *base, int source, uint64_t message,
                             size_t bytes);
shm_taken_t *shm_layout_taken(const shm_layout_t *layout, void *base, int owner, int source);
shm_used_t *shm_layout_used(const shm_layout_t *layout, void *base, int owner, int source,
                            int channel);

/* The same in the part of a further channel at `part`. */
shm_signals_t *shm_layout_further_signals(const shm_layout_t *layout, void *part, int owner,
                                          int source);
shm_ring_t *shm_layout_further_ring(const shm_layout_t *layout, void *part, int owner, int source);

void *shm_layout_scratch(const shm_layout_t *layout, void *base, int owner);

static inline char *shm_layout_ring_bytes(const shm_layout_t *layout, int channel,
                                          shm_ring_t *ring) {
  return (char *)&ring->slots[layout->descriptors[channel]];
}

#endif
