/*
 * Hot slots: a few payload slots behind a ring, reused in turn. There are so few that they stay in
 * the L1 caches of both cores. Measured between two cores of a Zen 4 that share their L3, one-way
 * streams of 512-byte messages: 48 ns per message with 8 slots, 67 ns with 16, and 92 ns with 32 or
 * more, however far the sender may run ahead.
 *
 * A slot is reused once the message that it held last is taken. Every SHM_HOT_ACK_INTERVAL-th
 * descriptor has wants_ack set: the receiver acknowledges as soon as it takes that message. A
 * sender without a free slot therefore has at least 6 messages not taken, which is more than plans
 * may have in flight without an acknowledgement (TRANSPORT_DEPTH), and it will get one.
 */
#ifndef TRANSPORT_SHM_HOT_H
#define TRANSPORT_SHM_HOT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "transport/shm/layout.h"

#define SHM_HOT_ACK_INTERVAL 2
/* Prefetching a hot line while it is being written is slower than not prefetching, except for the
 * shortest payloads. A rank that replies to each message waits for each; outside of the sizes
 * between these two limits it gains more from prefetching than from hot slots. */
#define SHM_HOT_PREFETCHED_MAX 256u
#define SHM_HOT_REPLY_MAX 640u

_Static_assert(SHM_HOT_SLOTS - SHM_HOT_ACK_INTERVAL >= TRANSPORT_DEPTH,
               "hot slots must hold TRANSPORT_DEPTH messages");
_Static_assert(SHM_HOT_SLOTS % SHM_HOT_ACK_INTERVAL == 0,
               "the same slots want an acknowledgement each time around");

/* Returns whether a hot slot is faster for a payload of up to SHM_HOT_BYTES. one_way: the message
 * is not a reply, and probably gets none. */
static inline bool shm_hot_is_better(size_t bytes, bool one_way) {
  return one_way || (bytes > SHM_HOT_PREFETCHED_MAX && bytes <= SHM_HOT_REPLY_MAX);
}

/* Private to the sender. */
typedef struct shm_hot {
  uint32_t slot;                   /* the next slot to use */
  uint64_t free_at[SHM_HOT_SLOTS]; /* the slot is free once this many messages are taken */
} shm_hot_t;

/* Returns whether the next slot is free after `taken` messages were taken. */
static inline bool shm_hot_is_free(const shm_hot_t *hot, uint64_t taken) {
  return hot->free_at[hot->slot] <= taken;
}

/* Reserves the next slot for message n, counted from 0. *wants_ack: the receiver shall acknowledge
 * it at once. */
static inline uint32_t shm_hot_use(shm_hot_t *hot, uint64_t n, bool *wants_ack) {
  uint32_t slot = hot->slot;
  hot->free_at[slot] = n + 1;
  hot->slot = (slot + 1) % SHM_HOT_SLOTS;
  *wants_ack = slot % SHM_HOT_ACK_INTERVAL == SHM_HOT_ACK_INTERVAL - 1;
  return slot;
}

static inline uint32_t shm_hot_offset(uint32_t slot) {
  return slot * SHM_HOT_STRIDE;
}

/* Offset of the slot after the one at `offset`, cyclically. */
static inline uint32_t shm_hot_next_offset(uint32_t offset) {
  return offset == shm_hot_offset(SHM_HOT_SLOTS - 1) ? 0 : offset + SHM_HOT_STRIDE;
}

#endif
