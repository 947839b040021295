/*
 * Sender's and receiver's side of one ring of messages (layout.h). The sender writes descriptors
 * and payloads. The receiver publishes what it has taken in the word `taken` only now and then (it
 * "acknowledges"), and the sender reads that word only when it has no room left by its last value.
 * Both sides so process many messages without transferring any line but those of the messages.
 *
 * A payload position is a byte count modulo 2^32 that only grows; its remainder by the ring's size
 * is the offset in the ring. A payload is contiguous, so the end of the ring may stay unused. Bytes
 * between the last acknowledged position and the sender's position are in use. The first payload
 * populates the pages of the whole ring, on either side. Short payloads may use the hot slots
 * behind the ring's bytes instead (hot.h), which leaves the position unchanged.
 *
 * A ring always has room for TRANSPORT_DEPTH (4) messages of slot_bytes that were not taken,
 * however late the receiver acknowledges. The unacknowledged part is always less than half of the
 * descriptors and less than SHM_UNACKED_SLOTS (2) slots of bytes. Descriptors: with 3 messages not
 * taken, a 4th finds one in the other half. Bytes: 4 messages take at most 4 slots, padding
 * included, plus the unacknowledged 2, plus less than 1 that is unused at the end of the ring,
 * which the 4 cross at most once: in all less than the 8 or more that a ring has. A sender without
 * room therefore has at least 4 messages not taken, and is acknowledged before fewer are left. It
 * never waits for the acknowledgement of messages that were taken, even if the receiver sleeps or
 * has left.
 */
#ifndef TRANSPORT_SHM_FIFO_H
#define TRANSPORT_SHM_FIFO_H

#include <stdbool.h>

#include "base/alloc.h"
#include "base/prefetch.h"
#include "transport/shm/hot.h"
#include "transport/shm/layout.h"
#include "transport/shm/payload.h"
#include "transport/shm/segment.h"

#define SHM_UNACKED_SLOTS 2
#define SHM_DESC_STRIDE 21   /* odd, so that n * stride modulo a power of two uses every slot */
#define SHM_PADDED_DIVISOR 4 /* payloads of up to slot_bytes / this are followed by padding */
/* How many descriptors ahead of the next one the sender prefetches for writing. The receiver has
 * read that line last; without the prefetch, consecutive sends wait for one line transfer each,
 * which is half of their time where cores are far apart. */
#define SHM_PREFETCH_DESCS 3
/* Lines of the expected payload that are prefetched while its descriptor is polled. */
#define SHM_PREFETCH_LINES 4

_Static_assert(SHM_UNACKED_SLOTS + TRANSPORT_DEPTH + 1 <= SHM_SLOTS,
               "a ring must hold TRANSPORT_DEPTH messages");
/* 1 / SHM_PADDED_DIVISOR + 2 / SHM_PADDING_DIVISOR <= 1 */
_Static_assert(SHM_PADDING_DIVISOR + 2 * SHM_PADDED_DIVISOR <=
                   SHM_PADDED_DIVISOR * SHM_PADDING_DIVISOR,
               "the longest padded payload and double padding must fit a slot");
_Static_assert(SHM_INLINE_BYTES <= BASE_MOVE_SHORT, "base_move_short copies inline payloads");
_Static_assert(SHM_DESCS_MIN / 2 >= TRANSPORT_DEPTH, "and as many descriptors");
_Static_assert(SHM_DESC_STRIDE % 2 == 1, "an odd stride uses every descriptor");

/* Private to the sender. */
typedef struct shm_outgoing {
  shm_ring_t *ring;
  char *bytes;
  uint64_t sent;
  uint32_t desc_mask, byte_mask; /* number of descriptors and of bytes, less 1 */
  /* padding_bytes (or twice that) follow payloads of up to padded_bytes_max bytes. */
  uint32_t padding_bytes, padded_bytes_max;
  uint32_t position; /* end of the latest payload and its padding */
  /* Message count and position up to which there is room, by the last read of `taken`. */
  uint32_t full_at, full_end;
  uint32_t hot_bytes_max; /* longest payload for a hot slot; 0: the ring has none */
  bool populates;         /* the first payload populates the pages of the whole ring */
  shm_hot_t hot;
  shm_policy_t policy;
} shm_outgoing_t;

/* Private to the receiver. */
typedef struct shm_incoming {
  shm_ring_t *ring;
  char *bytes;
  uint64_t received;
  uint32_t desc_mask, byte_mask;
  /* What may be taken without an acknowledgement. */
  uint32_t unacked_descs_max, unacked_bytes_max;
  uint32_t latest_bytes; /* of the latest message; the next is probably as long */
  bool caught_up;        /* the receiver polled for the next message before it was there */
  uint32_t ack_at;       /* count of taken messages at which the next acknowledgement is due */
  /* End of the latest payload taken, and its value at the latest acknowledgement. */
  uint32_t position, acked_position;
  uint32_t
      next_offset; /* predicted offset of the next payload: like the latest, ring or hot slot */
  bool hot;        /* the latest payload was in a hot slot */
  bool populates;  /* as in shm_outgoing_t */
  bool prefetches; /* prefetch the first lines of the next payload while polling for it */
} shm_incoming_t;

static inline void shm_outgoing_init(shm_outgoing_t *out, const shm_layout_t *layout, int channel,
                                     shm_ring_t *ring) {
  *out = (shm_outgoing_t){
      .ring = ring,
      .bytes = shm_layout_ring_bytes(layout, channel, ring),
      .desc_mask = layout->descriptors[channel] - 1,
      .byte_mask = layout->ring_bytes[channel] - 1,
      .full_at = layout->descriptors[channel],
      .full_end = layout->ring_bytes[channel],
      .populates = shm_layout_populates(layout, channel),
      .hot_bytes_max = shm_layout_hot_bytes(layout, channel) > 0 ? SHM_HOT_BYTES : 0,
      .padding_bytes = layout->padding_bytes,
      .padded_bytes_max = (uint32_t)layout->slot_bytes / SHM_PADDED_DIVISOR};
  shm_policy_init(&out->policy);
}

static inline void shm_incoming_init(shm_incoming_t *in, const shm_layout_t *layout, int channel,
                                     shm_ring_t *ring) {
  bool p2p = channel == TRANSPORT_CHANNEL_P2P;
  uint32_t unacked = layout->descriptors[channel] / (p2p ? SHM_P2P_UNACKED_DIVISOR : 2);
  *in = (shm_incoming_t){.ring = ring,
                         .bytes = shm_layout_ring_bytes(layout, channel, ring),
                         .desc_mask = layout->descriptors[channel] - 1,
                         .byte_mask = layout->ring_bytes[channel] - 1,
                         .unacked_descs_max = unacked,
                         .ack_at = unacked,
                         .populates = shm_layout_populates(layout, channel),
                         .unacked_bytes_max = SHM_UNACKED_SLOTS * (uint32_t)layout->slot_bytes};
}

/* Reads the receiver's last acknowledgement. */
static inline void shm_outgoing_refresh(shm_outgoing_t *out) {
  /* acquire: the receiver has finished reading what it has taken before we overwrite it */
  shm_progress_t taken = {.word = atomic_load_explicit(&out->ring->taken, memory_order_acquire)};
  out->full_at = taken.descriptors + out->desc_mask + 1;
  out->full_end = taken.position + out->byte_mask + 1;
}

/* Returns whether there is a descriptor for the next message. */
static inline bool shm_outgoing_has_desc(shm_outgoing_t *out) {
  if (__builtin_expect((uint32_t)out->sent != out->full_at, true)) return true;
  shm_outgoing_refresh(out);
  return (uint32_t)out->sent != out->full_at;
}

/* Returns whether the bytes from the latest payload up to position `end` are free. */
static inline bool shm_outgoing_has_bytes(shm_outgoing_t *out, uint32_t end) {
  if (out->full_end - end <= out->byte_mask) return true;
  shm_outgoing_refresh(out);
  return out->full_end - end <= out->byte_mask;
}

/* Padding after a payload of `run` bytes. The receiver's hardware prefetchers read beyond the end
 * of a payload; padding keeps them off the lines that the sender writes next. A shorter payload is
 * read faster and gets twice the padding. */
static inline uint32_t shm_outgoing_padding(const shm_outgoing_t *out, uint32_t run) {
  return run <= 4 * out->padding_bytes ? 2 * out->padding_bytes : out->padding_bytes;
}

/* Copies the payload of a message that does not fit into a descriptor into the ring, and sets its
 * offset in the descriptor. Returns false if there is no room; nothing has changed then. */
static inline bool shm_outgoing_put_payload(shm_outgoing_t *out, const void *data, size_t bytes,
                                            shm_desc_t *descriptor) {
  uint32_t run = (uint32_t)base_round_up(bytes, BASE_CACHE_LINE), start = out->position;
  uint32_t left = out->byte_mask + 1 - (start & out->byte_mask);
  if (run > left) start += left;
  uint32_t end = start + run;
  if (run <= out->padded_bytes_max) end += shm_outgoing_padding(out, run);
  if (!shm_outgoing_has_bytes(out, end)) return false;
  if (start == 0 && out->populates) base_populate(out->bytes, out->byte_mask + 1);
  shm_payload_put(&out->policy, out->bytes + (start & out->byte_mask), data, bytes);
  descriptor->offset = start & out->byte_mask;
  descriptor->end = end;
  descriptor->wants_ack = false;
  out->position = end;
  return true;
}

/* Number of messages taken, by the last acknowledgement read. */
static inline uint64_t shm_outgoing_taken(const shm_outgoing_t *out) {
  uint32_t room = out->full_at - (uint32_t)out->sent;
  return out->sent + room - out->desc_mask - 1;
}

static inline bool shm_outgoing_has_hot_slot(shm_outgoing_t *out) {
  if (shm_hot_is_free(&out->hot, shm_outgoing_taken(out))) return true;
  shm_outgoing_refresh(out);
  return shm_hot_is_free(&out->hot, shm_outgoing_taken(out));
}

/* The same, into a hot slot. */
static inline bool shm_outgoing_put_hot(shm_outgoing_t *out, const void *data, size_t bytes,
                                        shm_desc_t *descriptor) {
  bool wants_ack;
  if (!shm_outgoing_has_hot_slot(out)) return false;
  uint32_t slot = shm_hot_use(&out->hot, out->sent, &wants_ack);
  descriptor->offset = out->byte_mask + 1 + shm_hot_offset(slot);
  descriptor->end = out->position;
  descriptor->wants_ack = wants_ack;
  shm_payload_write(out->bytes + descriptor->offset, data, bytes);
  return true;
}

/* The descriptor of message n. Consecutive descriptors are far apart in memory, so that the
 * hardware prefetchers of a receiver that reads one do not take the line that the sender writes
 * next. */
static inline shm_slot_t *shm_desc_slot(shm_ring_t *ring, uint64_t n, uint32_t desc_mask) {
  return &ring->slots[n * SHM_DESC_STRIDE & desc_mask];
}

static inline shm_slot_t *shm_outgoing_next(const shm_outgoing_t *out) {
  return shm_desc_slot(out->ring, out->sent, out->desc_mask);
}

/* Publishes the message after its payload was copied. */
static inline void shm_outgoing_publish(shm_outgoing_t *out, shm_slot_t *slot,
                                        transport_head_t head) {
  slot->descriptor.call = head.call;
  slot->bytes = (uint32_t)head.bytes;
  /* release: descriptor and payload are visible with the flag */
  atomic_store_explicit(&slot->sequence, (uint32_t)++out->sent, memory_order_release);
}

/* Puts a message that fits into a descriptor into the ring. Returns false if there is no room;
 * nothing has changed then. */
static inline bool shm_outgoing_put_short(shm_outgoing_t *out, const void *data,
                                          transport_head_t head) {
  shm_slot_t *slot = shm_outgoing_next(out);
  if (!shm_outgoing_has_desc(out)) return false;
  base_move_short(slot->descriptor.payload, data, head.bytes);
  shm_outgoing_publish(out, slot, head);
  return true;
}

/* The same for a longer message of at most slot_bytes. hot: use a hot slot if the payload fits one.
 * */
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

/* For a sender of a stream without replies. */
static inline void shm_outgoing_prefetch_ahead(const shm_outgoing_t *out) {
  base_prefetch_write(shm_desc_slot(out->ring, out->sent + SHM_PREFETCH_DESCS, out->desc_mask));
}

static inline shm_slot_t *shm_incoming_next(const shm_incoming_t *in) {
  return shm_desc_slot(in->ring, in->received, in->desc_mask);
}

/* Returns the descriptor of the oldest message and copies its header; NULL if there is no message.
 * */
static inline const shm_desc_t *shm_incoming_poll(const shm_incoming_t *in,
                                                  transport_head_t *head) {
  const shm_slot_t *slot = shm_incoming_next(in);
  if (in->prefetches) {
    const char *next = in->bytes + in->next_offset;
    for (int line = 0; line < SHM_PREFETCH_LINES; line++) {
      __builtin_prefetch(next + line * BASE_CACHE_LINE);
    }
  }
  /* acquire: pairs with the release in shm_outgoing_publish; descriptor and payload are visible */
  uint32_t sequence = atomic_load_explicit(&slot->sequence, memory_order_acquire);
  if (sequence != (uint32_t)in->received + 1) return NULL;
  *head = (transport_head_t){.call = slot->descriptor.call, .bytes = slot->bytes};
  return &slot->descriptor;
}

/* The payload of a message that does not fit into a descriptor. */
static inline const void *shm_incoming_payload(const shm_incoming_t *in,
                                               const shm_desc_t *descriptor) {
  if (in->populates && descriptor->offset == 0 && in->position == 0) {
    base_populate(in->bytes, in->byte_mask + 1);
  }
  return in->bytes + descriptor->offset;
}

static inline void shm_incoming_ack(shm_incoming_t *in) {
  shm_progress_t taken = {.descriptors = (uint32_t)in->received, .position = in->position};
  in->ack_at = taken.descriptors + in->unacked_descs_max;
  in->acked_position = in->position;
  /* release: our reads are complete before the sender may overwrite what they read */
  atomic_store_explicit(&in->ring->taken, taken.word, memory_order_release);
}

/* Records where the payload of the taken message was, to predict the next. Returns whether an
 * acknowledgement is due. */
static inline bool shm_incoming_note_payload(shm_incoming_t *in, const shm_desc_t *descriptor) {
  uint32_t ring_bytes = in->byte_mask + 1;
  in->hot = descriptor->offset >= ring_bytes;
  in->position = descriptor->end;
  in->next_offset = in->position & in->byte_mask;
  in->prefetches = true;
  if (in->hot) {
    in->next_offset = ring_bytes + shm_hot_next_offset(descriptor->offset - ring_bytes);
    in->prefetches = in->latest_bytes <= SHM_HOT_PREFETCHED_MAX;
  }
  return descriptor->wants_ack || in->position - in->acked_position >= in->unacked_bytes_max;
}

/* For a receiver that has left: returns whether it left messages untaken, and the call of the
 * oldest. */
static inline bool shm_outgoing_oldest_untaken(shm_outgoing_t *out, flight_call_t *call) {
  shm_outgoing_refresh(out);
  uint64_t taken = shm_outgoing_taken(out);
  if (taken == out->sent) return false;
  const shm_slot_t *slot = shm_desc_slot(out->ring, taken, out->desc_mask);
  *call = slot->descriptor.call;
  return true;
}

/* Takes the message that was polled, and acknowledges if that is due. Returns whether it did. */
static inline bool shm_incoming_take(shm_incoming_t *in) {
  const shm_slot_t *slot = shm_incoming_next(in);
  bool must_ack = (uint32_t)++in->received == in->ack_at;
  /* prefetch the next descriptor, unless the receiver had caught up: then the line is left to the
   * sender, which is about to write it */
  if (!in->caught_up) __builtin_prefetch(shm_incoming_next(in));
  in->caught_up = false;
  in->latest_bytes = slot->bytes;
  in->prefetches = false;
  if (in->latest_bytes > SHM_INLINE_BYTES)
    must_ack = shm_incoming_note_payload(in, &slot->descriptor) || must_ack;
  if (__builtin_expect(must_ack, false)) shm_incoming_ack(in);
  return must_ack;
}

#endif
