/*
 * What travels over a connection: frames, each with a payload behind it. Integers are in the byte
 * order of the host, which is the same on all ranks (connect/names.h). The connections of a pair of
 * ranks carry all its channels. Frames are numbered, so that they can take several connections and
 * be sent again after one was reset (order.c).
 *
 * Flow control is by credits. A sender has at most NET_MESSAGES (of the channel for point-to-point
 * calls: NET_P2P_MESSAGES) messages, at most NET_UNTAKEN_BYTES bytes, and NET_SIGNALS signals on a
 * channel that the receiver has not taken, so that what a receiver stores is bounded, and a full
 * FIFO does not hold up the others. Every frame carries the counts of what its sender has taken on
 * its channel.
 */
#ifndef TRANSPORT_NET_FRAME_H
#define TRANSPORT_NET_FRAME_H

#include <stdint.h>

#include "transport/ops.h"

typedef enum net_kind {
  NET_MESSAGE = 1,
  NET_SIGNAL,
  NET_CREDIT,   /* counts only */
  NET_WANT,     /* the sender waits for room: counts are wanted as soon as something is taken */
  NET_RECORD,   /* the sender's flight recorder */
  NET_PROPOSE,  /* a reason for which the sender aborts the communicator */
  NET_VERDICT,  /* the reason for which the communicator is aborted */
  NET_LEAVE,    /* the last frame of a rank that leaves in good order */
  NET_NOTE,     /* from a rank's wire to the peer's */
  NET_RECEIVED, /* says which frames have arrived */
  NET_SWITCH    /* further frames of the sender come by its wire, but for notes and aborts */
} net_kind_t;

typedef struct net_frame {
  uint8_t kind;
  uint8_t unused;
  uint16_t channel;
  uint32_t bytes;                         /* of the payload */
  uint32_t messages_taken, signals_taken; /* on this channel, modulo 2^32 */
  uint32_t number;     /* of the frame, modulo 2^32; of kinds that are numbered, not over a wire */
  uint32_t received;   /* numbered frames that the sender has received; not over a wire */
  flight_call_t call;  /* NET_RECORD: count is the sender's clock in ns */
  uint64_t padding[3]; /* a cache line in all: behind a head of 40 bytes, the kernel copies a long
                          payload 11 to 15 % more slowly */
} net_frame_t;

static inline bool net_frame_is_message_of(const net_frame_t *frame, int channel) {
  return frame->kind == NET_MESSAGE && frame->channel == channel;
}

_Static_assert(sizeof(net_frame_t) == 64, "its layout is the same on all hosts");

/* Longest message by sockets, where two ranks that exchange messages wait for each other after each
 * of them; and by a wire, which has memory for many. */
#define NET_SLOT_BYTES ((size_t)1 << 20)
#define WIRE_SLOT_BYTES 65536
/* A receiver tells what it has received, and what it has taken, after so many bytes; a call that
 * has sent more ends when no more than that is unacknowledged. A frame counts whole, so that a
 * longer one is acknowledged by then. */
#define NET_UNTOLD_BYTES ((size_t)256 << 10)
/* A sender has no more on a channel that the receiver has not taken, as far as it was told: what
 * ops.h promises. */
#define NET_UNTAKEN_BYTES (TRANSPORT_DEPTH * NET_SLOT_BYTES + NET_UNTOLD_BYTES)
#define NET_MESSAGES 16
#define NET_P2P_MESSAGES 128
#define NET_SIGNALS 32

/* The FIFO of plans and that of point-to-point calls have room for what ops.h and coll.h promise
 * even if the sender knows only of every quarter that was taken. */
_Static_assert(TRANSPORT_DEPTH + NET_MESSAGES / 4 <= NET_MESSAGES, "the depth fits");
_Static_assert(PLAN_SIGNALS_MAX + NET_SIGNALS / 4 <= NET_SIGNALS, "so do signals");
_Static_assert(TRANSPORT_P2P_BYTES <= TRANSPORT_DEPTH * NET_SLOT_BYTES, "so do the bytes");
_Static_assert(TRANSPORT_P2P_MESSAGES + TRANSPORT_P2P_BYTES / NET_SLOT_BYTES +
                       NET_P2P_MESSAGES / 4 <=
                   NET_P2P_MESSAGES,
               "and point-to-point messages");

#endif
