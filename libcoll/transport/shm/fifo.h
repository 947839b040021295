/*
 * One ring of messages (layout.h), as its two ends see it. The sender writes descriptors and
 * payloads, and looks at what was taken only when it is out of room by what it last saw; the
 * receiver tells what it has taken only now and then. So both go on for many messages without a
 * line that travels back and forth for anything but the messages themselves.
 *
 * Positions of payloads only grow, modulo 2^32; a position's remainder by the ring's bytes is its
 * place. A payload lies in one piece, so the end of the ring may be left empty. What lies between
 * the position last told and the sender's is in use. The first payload brings the pages of all, to
 * either side. Short payloads may go by a few slots behind the ring's bytes instead (hot.h), and
 * leave the position as it is.
 *
 * There is room for PLAN_DEPTH_MAX (4) messages of slot_bytes that were not taken, however late the
 * receiver tells: it never keeps to itself as much as half of the descriptors, or SHM_UNTOLD_SLOTS
 * (2) slots of bytes. With 3 messages not taken, a 4th finds a descriptor in the other half; and a
 * place, for the 4 take as many slots at most, with the gaps behind short ones, and what is left
 * empty less than 1, as the ring ends but once among them: in all less than the 8 there are, or
 * more. So a sender without room has at least 4 messages to be taken, and will be told before fewer
 * are left. It is not held up by what was taken and not told, wherever the receiver has gone: to
 * sleep, or for good.
 */
#ifndef TRANSPORT_SHM_FIFO_H
#define TRANSPORT_SHM_FIFO_H

#include <stdbool.h>

#include "base/memory.h"
#include "base/prefetch.h"
#include "transport/shm/holdback.h"
#include "transport/shm/hot.h"
#include "transport/shm/layout.h"
#include "transport/shm/payload.h"
#include "transport/shm/segment.h"

#define SHM_UNTOLD_SLOTS 2
#define SHM_DESC_STRIDE 21    /* odd, so that every place of a power of two of them has its turn */
#define SHM_GAP_AFTER_SHARE 4 /* payloads of up to this share of a slot have a gap behind them */
/* How many descriptors ahead of the next one the sender fetches the line from the receiver, which
 * has read it last. A row of descriptors else waits for one line after the other, half of its time
 * where cores are far apart. */
#define SHM_AHEAD_DESCS 3
#define SHM_AHEAD_LINES 4 /* of the next payload, that are fetched along with its flag */

_Static_assert(SHM_UNTOLD_SLOTS + PLAN_DEPTH_MAX + 1 <= SHM_SLOTS,
               "a ring must hold the depth that plans may state");
_Static_assert(1.0 / SHM_GAP_AFTER_SHARE + 2.0 / SHM_GAP_SHARE <= 1,
               "the longest payload with a gap and twice the gap must fit a slot");
_Static_assert(SHM_INLINE_BYTES <= BASE_MOVE_SHORT, "what a descriptor holds is moved in place");
_Static_assert(SHM_DESCS_MIN / 2 >= PLAN_DEPTH_MAX, "so must its descriptors");
_Static_assert(SHM_DESC_STRIDE % 2 == 1, "each descriptor needs a place of its own");

/* Private to the sender. */
typedef struct shm_outgoing {
  shm_ring_t *ring;
  char *bytes;
  uint64_t sent;
  uint32_t desc_mask, byte_mask;     /* their numbers, less 1 */
  uint32_t gap_bytes, gap_after_max; /* behind payloads of up to so many bytes */
  uint32_t position;                 /* behind the latest payload and its gap */
  /* Messages and position up to which there was room at last look. */
  uint32_t full_at, full_behind;
  uint32_t hot_bytes_max; /* of payloads that may go by hot slots; 0: none */
  bool populates;         /* the first payload brings the pages of all */
  shm_hot_t hot;
  shm_policy_t policy;
} shm_outgoing_t;

/* Private to the receiver. */
typedef struct shm_incoming {
  shm_ring_t *ring;
  char *bytes;
  uint64_t received;
  uint32_t desc_mask, byte_mask;
  uint32_t untold_descs_max, untold_bytes_max; /* before it tells */
  uint32_t latest_bytes;     /* of the latest message, and so probably of the next */
  uint32_t slip_below_bytes; /* messages shorter than that may be held back */
  shm_holdback_t holdback;
  uint32_t tell_at;                 /* how many messages are taken when the sender is told */
  uint32_t position, told_position; /* behind the latest payload taken */
  uint32_t next_place;              /* of the next payload, if it goes the latest one's way */
  bool hot;                         /* the latest payload lay in a hot slot */
  bool populates;                   /* as of shm_outgoing_t */
  bool fetches;                     /* the next payload's first lines, as it is looked for */
} shm_incoming_t;

static inline void shm_outgoing_init(shm_outgoing_t *out, const shm_layout_t *layout, int channel,
                                     shm_ring_t *ring) {
  *out = (shm_outgoing_t){
      .ring = ring,
      .bytes = shm_layout_ring_bytes(layout, channel, ring),
      .desc_mask = layout->descriptors[channel] - 1,
      .byte_mask = layout->ring_bytes[channel] - 1,
      .full_at = layout->descriptors[channel],
      .full_behind = layout->ring_bytes[channel],
      .populates = shm_layout_populates(layout),
      .hot_bytes_max = shm_layout_hot_bytes(layout, channel) > 0 ? SHM_HOT_BYTES : 0,
      .gap_bytes = layout->gap_bytes,
      .gap_after_max = (uint32_t)layout->slot_bytes / SHM_GAP_AFTER_SHARE};
  shm_policy_init(&out->policy);
}

/* A receiver slips by half of the descriptors, whose payloads, with what is left empty behind them,
 * take half of the ring at most. Whoever waits for messages of a pair may wait for others as well,
 * and look so seldom that slipping is not worth it. */
static inline uint32_t shm_holdback_below_bytes(const shm_layout_t *layout, int channel) {
  uint32_t bytes =
      layout->ring_bytes[channel] / layout->descriptors[channel] - 2 * layout->gap_bytes;
  if (channel == TRANSPORT_CHANNEL_P2P) return 0;
  return bytes < SHM_HOLDBACK_BELOW_BYTES ? bytes : SHM_HOLDBACK_BELOW_BYTES;
}

static inline void shm_incoming_init(shm_incoming_t *in, const shm_layout_t *layout, int channel,
                                     shm_ring_t *ring) {
  bool p2p = channel == TRANSPORT_CHANNEL_P2P;
  uint32_t untold = layout->descriptors[channel] / (p2p ? SHM_P2P_UNTOLD_SHARE : 2);
  *in = (shm_incoming_t){.ring = ring,
                         .bytes = shm_layout_ring_bytes(layout, channel, ring),
                         .desc_mask = layout->descriptors[channel] - 1,
                         .byte_mask = layout->ring_bytes[channel] - 1,
                         .untold_descs_max = untold,
                         .tell_at = untold,
                         .populates = shm_layout_populates(layout),
                         .untold_bytes_max = SHM_UNTOLD_SLOTS * (uint32_t)layout->slot_bytes,
                         .slip_below_bytes = shm_holdback_below_bytes(layout, channel)};
  shm_holdback_init(&in->holdback);
}

/* Sees what was taken. */
static inline void shm_outgoing_look(shm_outgoing_t *out) {
  /* acquire: the receiver has read what it has taken before we write over it */
  shm_progress_t taken = {.word = atomic_load_explicit(&out->ring->taken, memory_order_acquire)};
  out->full_at = taken.descriptors + out->desc_mask + 1;
  out->full_behind = taken.position + out->byte_mask + 1;
}

/* Whether there is a descriptor for a next message. */
static inline bool shm_outgoing_has_desc(shm_outgoing_t *out) {
  if (__builtin_expect((uint32_t)out->sent != out->full_at, true)) return true;
  shm_outgoing_look(out);
  return (uint32_t)out->sent != out->full_at;
}

/* Whether the bytes from the latest payload to the position are free. */
static inline bool shm_outgoing_has_bytes(shm_outgoing_t *out, uint32_t end) {
  if (out->full_behind - end <= out->byte_mask) return true;
  shm_outgoing_look(out);
  return out->full_behind - end <= out->byte_mask;
}

/* What is left empty behind a payload that takes so many bytes, gap_bytes or twice as many: the
 * shorter it is, the sooner its reader's prefetchers are where the next one is being written. */
static inline uint32_t shm_outgoing_gap(const shm_outgoing_t *out, uint32_t run) {
  return run <= 4 * out->gap_bytes ? 2 * out->gap_bytes : out->gap_bytes;
}

/* The payload of a message that is longer than a descriptor to its place among the ring's bytes,
 * which the descriptor is told; false: there is no room, and nothing has changed. */
static inline bool shm_outgoing_put_payload(shm_outgoing_t *out, const void *data, size_t bytes,
                                            shm_desc_t *descriptor) {
  uint32_t run = (uint32_t)base_round_up(bytes, BASE_CACHE_LINE), start = out->position;
  uint32_t left = out->byte_mask + 1 - (start & out->byte_mask);
  if (run > left) start += left;
  uint32_t end = start + run;
  if (run <= out->gap_after_max) end += shm_outgoing_gap(out, run);
  if (!shm_outgoing_has_bytes(out, end)) return false;
  if (start == 0 && out->populates) base_populate(out->bytes, out->byte_mask + 1);
  shm_payload_put(&out->policy, out->bytes + (start & out->byte_mask), data, bytes);
  descriptor->place = start & out->byte_mask;
  descriptor->end = end;
  descriptor->asks = false;
  out->position = end;
  return true;
}

/* At last look. */
static inline uint64_t shm_outgoing_taken(const shm_outgoing_t *out) {
  uint32_t room = out->full_at - (uint32_t)out->sent;
  return out->sent + room - out->desc_mask - 1;
}

static inline bool shm_outgoing_has_hot_slot(shm_outgoing_t *out) {
  if (shm_hot_is_free(&out->hot, shm_outgoing_taken(out))) return true;
  shm_outgoing_look(out);
  return shm_hot_is_free(&out->hot, shm_outgoing_taken(out));
}

/* The same to a hot slot. */
static inline bool shm_outgoing_put_hot(shm_outgoing_t *out, const void *data, size_t bytes,
                                        shm_desc_t *descriptor) {
  bool asks;
  if (!shm_outgoing_has_hot_slot(out)) return false;
  uint32_t slot = shm_hot_use(&out->hot, out->sent, &asks);
  descriptor->place = out->byte_mask + 1 + shm_hot_place(slot);
  descriptor->end = out->position;
  descriptor->asks = asks;
  shm_payload_write(out->bytes + descriptor->place, data, bytes);
  return true;
}

/* Where the n-th message's descriptor is. Letters that follow one another lie apart, so that what a
 * receiver's prefetchers fetch behind the one it reads is not the next that the sender writes. */
static inline shm_slot_t *shm_desc_slot(shm_ring_t *ring, uint64_t n, uint32_t desc_mask) {
  return &ring->slots[n * SHM_DESC_STRIDE & desc_mask];
}

static inline shm_slot_t *shm_outgoing_next(const shm_outgoing_t *out) {
  return shm_desc_slot(out->ring, out->sent, out->desc_mask);
}

/* Once the payload is in its place. */
static inline void shm_outgoing_publish(shm_outgoing_t *out, shm_slot_t *slot,
                                        transport_head_t head) {
  slot->descriptor.call = head.call;
  slot->bytes = (uint32_t)head.bytes;
  /* release: descriptor and payload are there once their flag is */
  atomic_store_explicit(&slot->sequence, (uint32_t)++out->sent, memory_order_release);
}

/* Puts a message that fits a descriptor into the ring; false: there is no room, and nothing has
 * changed. */
static inline bool shm_outgoing_put_short(shm_outgoing_t *out, const void *data,
                                          transport_head_t head) {
  shm_slot_t *slot = shm_outgoing_next(out);
  if (!shm_outgoing_has_desc(out)) return false;
  base_move_short(slot->descriptor.payload, data, head.bytes);
  shm_outgoing_publish(out, slot, head);
  return true;
}

/* The same for a longer one of at most slot_bytes; by a hot slot, if it fits one, where `hot` says
 * so. */
static inline bool shm_outgoing_put_long(shm_outgoing_t *out, const void *data,
                                         transport_head_t head, bool hot) {
  shm_slot_t *slot = shm_outgoing_next(out);
  if (!shm_outgoing_has_desc(out)) return false;
  bool is_put = hot && head.bytes <= out->hot_bytes_max
                    ? shm_outgoing_put_hot(out, data, head.bytes, &slot->descriptor)
                    : shm_outgoing_put_payload(out, data, head.bytes, &slot->descriptor);
  if (is_put) shm_outgoing_publish(out, slot, head);
  return is_put;
}

/* For a sender that goes on without an answer. */
static inline void shm_outgoing_fetch_ahead(const shm_outgoing_t *out) {
  base_prefetch_write(shm_desc_slot(out->ring, out->sent + SHM_AHEAD_DESCS, out->desc_mask));
}

static inline shm_slot_t *shm_incoming_next(const shm_incoming_t *in) {
  return shm_desc_slot(in->ring, in->received, in->desc_mask);
}

/* The descriptor of the oldest message, and its head; NULL: there is none. */
static inline const shm_desc_t *shm_incoming_look(const shm_incoming_t *in,
                                                  transport_head_t *head) {
  const shm_slot_t *slot = shm_incoming_next(in);
  if (in->fetches) {
    const char *next = in->bytes + in->next_place;
    for (int line = 0; line < SHM_AHEAD_LINES; line++) {
      __builtin_prefetch(next + line * BASE_CACHE_LINE);
    }
  }
  /* acquire: descriptor and payload are there once their flag is */
  uint32_t sequence = atomic_load_explicit(&slot->sequence, memory_order_acquire);
  if (sequence != (uint32_t)in->received + 1) return NULL;
  *head = (transport_head_t){.call = slot->descriptor.call, .bytes = slot->bytes};
  return &slot->descriptor;
}

/* Of a message that is longer than a descriptor. */
static inline const void *shm_incoming_payload(const shm_incoming_t *in,
                                               const shm_desc_t *descriptor) {
  if (in->populates && descriptor->place == 0 && in->position == 0) {
    base_populate(in->bytes, in->byte_mask + 1);
  }
  return in->bytes + descriptor->place;
}

static inline void shm_incoming_tell(shm_incoming_t *in) {
  shm_progress_t taken = {.descriptors = (uint32_t)in->received, .position = in->position};
  in->tell_at = taken.descriptors + in->untold_descs_max;
  in->told_position = in->position;
  /* release: our reads are over before the sender may write over what they read */
  atomic_store_explicit(&in->ring->taken, taken.word, memory_order_release);
}

/* Whether the sender is ahead by half of the descriptors, or some of the hot slots. */
static inline bool shm_incoming_is_behind(const shm_incoming_t *in) {
  bool hot = in->hot && in->latest_bytes > SHM_INLINE_BYTES;
  uint64_t ahead = in->received + (hot ? SHM_HOT_HOLDBACK : (in->desc_mask + 1) / 2);
  const shm_slot_t *slot = shm_desc_slot(in->ring, ahead, in->desc_mask);
  /* relaxed: nothing is read behind it */
  return atomic_load_explicit(&slot->sequence, memory_order_relaxed) == (uint32_t)ahead + 1;
}

/* Notes where the payload was that is let go of; whether the sender is to be told. */
static inline bool shm_incoming_pass(shm_incoming_t *in, const shm_desc_t *descriptor) {
  uint32_t ring_bytes = in->byte_mask + 1;
  in->hot = descriptor->place >= ring_bytes;
  in->position = descriptor->end;
  in->next_place = in->position & in->byte_mask;
  in->fetches = true;
  if (in->hot) {
    in->next_place = ring_bytes + shm_hot_place_behind(descriptor->place - ring_bytes);
    in->fetches = in->latest_bytes <= SHM_HOT_FETCHED_MAX;
  }
  return descriptor->asks || in->position - in->told_position >= in->untold_bytes_max;
}

/* The call of the oldest message that the receiver, which has left, had not taken. */
static inline bool shm_outgoing_untaken(shm_outgoing_t *out, flight_call_t *call) {
  shm_outgoing_look(out);
  uint64_t taken = shm_outgoing_taken(out);
  if (taken == out->sent) return false;
  const shm_slot_t *slot = shm_desc_slot(out->ring, taken, out->desc_mask);
  *call = slot->descriptor.call;
  return true;
}

/* Lets go of the message that was peeked; whether the sender was told. */
static inline bool shm_incoming_take(shm_incoming_t *in) {
  const shm_slot_t *slot = shm_incoming_next(in);
  bool tells = (uint32_t)++in->received == in->tell_at;
  /* the next one is there as well, or else it were better left to the sender for now */
  if (!in->holdback.late) __builtin_prefetch(shm_incoming_next(in));
  in->holdback.late = false;
  in->latest_bytes = slot->bytes;
  in->fetches = false;
  if (in->latest_bytes > SHM_INLINE_BYTES)
    tells = shm_incoming_pass(in, &slot->descriptor) || tells;
  if (__builtin_expect(tells, false)) shm_incoming_tell(in);
  return tells;
}

#endif
