/*
 * Slots for the payloads of short messages: so few of them that they stay in the first caches of
 * both cores. Two cores of a Zen 4 that share their last cache pass on 512 bytes in 48 ns around 8
 * places, in 67 around 16 and in 92 around 32 or more, however far the sender may be ahead.
 *
 * A slot is used again once the message that it held last is taken. Every SHM_HOT_ASKS-th
 * descriptor asks the receiver to tell: so a sender without a slot has at least 6 messages to be
 * taken, more than plans may have it send before it is heard of (PLAN_DEPTH_MAX), and will be told.
 */
#ifndef TRANSPORT_SHM_HOT_H
#define TRANSPORT_SHM_HOT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "transport/shm/layout.h"

#define SHM_HOT_ASKS 2
#define SHM_HOT_HOLDBACK 2 /* messages that a receiver lets its sender get ahead by (slip.h) */
/* Hot lines had better not be fetched while they are written, but for the shortest payloads. Who
 * answers, and so waits for each, does without hot slots where fetching pays more than they do. */
#define SHM_HOT_FETCHED_MAX 256u
#define SHM_HOT_ANSWERED_MAX 640u

_Static_assert(SHM_HOT_SLOTS - SHM_HOT_ASKS >= PLAN_DEPTH_MAX,
               "hot slots must hold the depth that plans may state");
_Static_assert(SHM_HOT_SLOTS % SHM_HOT_ASKS == 0, "each lap asks for the same slots");

/* Whether a payload of up to SHM_HOT_BYTES had better go by a hot slot. one_way: it is no answer,
 * nor probably answered. */
static inline bool shm_hot_suits(size_t bytes, bool one_way) {
  return one_way || (bytes > SHM_HOT_FETCHED_MAX && bytes <= SHM_HOT_ANSWERED_MAX);
}

/* Private to the sender. */
typedef struct shm_hot {
  uint32_t slot;                 /* the next one */
  uint64_t until[SHM_HOT_SLOTS]; /* how many messages are taken when it is free */
} shm_hot_t;

/* Whether the next slot is free, where so many messages were taken. */
static inline bool shm_hot_is_free(const shm_hot_t *hot, uint64_t taken) {
  return hot->until[hot->slot] <= taken;
}

/* The next slot for the n-th message, counted from 0; whether the receiver is to tell of it. */
static inline uint32_t shm_hot_use(shm_hot_t *hot, uint64_t n, bool *asks) {
  uint32_t slot = hot->slot;
  hot->until[slot] = n + 1;
  hot->slot = (slot + 1) % SHM_HOT_SLOTS;
  *asks = slot % SHM_HOT_ASKS == SHM_HOT_ASKS - 1;
  return slot;
}

static inline uint32_t shm_hot_place(uint32_t slot) {
  return slot * SHM_HOT_STRIDE;
}

/* Of the slot behind that one. */
static inline uint32_t shm_hot_place_behind(uint32_t place) {
  return place == shm_hot_place(SHM_HOT_SLOTS - 1) ? 0 : place + SHM_HOT_STRIDE;
}

#endif
