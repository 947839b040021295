/*
 * Another way for frames than sockets, such as RDMA, between ranks that both have it. The socket of
 * every pair of ranks stays: the wires of the two tell each other over it how to connect, and it
 * carries aborts and detects death.
 *
 * A pair begins on its socket. The first message asks the wire to connect; once it is ready, the
 * last frame over the socket says so (NET_SWITCH), and all further ones go by the wire. Each
 * direction switches on its own.
 *
 * A wire delivers frames of a peer once and in the order of sending, each with its payload. The
 * end's lock is held in every call, in both directions. What a wire calls may call its `send`.
 */
#ifndef TRANSPORT_NET_WIRE_OPS_H
#define TRANSPORT_NET_WIRE_OPS_H

#include <stdbool.h>

#include "base/status.h"
#include "transport/net/frame.h"

#define WIRE_NOTE_BYTES 4096 /* of a note, at most */

typedef struct wire wire_t;
typedef struct wire_message wire_message_t;
typedef struct net net_t;

typedef struct wire_ops {
  const char *name;

  /* Begins to connect with a peer; called once per peer. When it can send, it calls
   * wire_ready, within this call or later. Statuses: a failure ends the call of the user. */
  coll_status_t (*connect)(wire_t *wire, int peer);

  /* The peer's wire has told this one something (wire_tell). It may come before `connect`,
   * which then is still called if this rank sends something. */
  coll_status_t (*hear)(wire_t *wire, int peer, const void *note, size_t bytes);

  /* Sends a frame with frame->bytes of payload, or stores a copy. Called once ready. */
  coll_status_t (*send)(wire_t *wire, int peer, const net_frame_t *frame, const void *payload);

  /* Passes on (wire_arrived) what has arrived from any peer, and sends what was stored, as
   * far as possible. Never blocks. */
  coll_status_t (*progress)(wire_t *wire);

  /* From now on the descriptor becomes readable when progress has something to do. False: it has
   * something to do now. */
  bool (*arm)(wire_t *wire);

  /* Whether something that was sent to the peer has not yet reached its host. */
  bool (*is_unsent)(const wire_t *wire, int peer);

  /* The slots of transport_fetch_ops_t, for a pair that is ready in both directions; expose NULL:
   * there are none. `fetch` is begin; the caller sets the port. */
  coll_status_t (*expose)(wire_t *wire, int peer, const void *data, size_t bytes,
                          transport_exposure_t *exposure, bool *exposed);
  void (*withdraw)(wire_t *wire, int peer, const transport_exposure_t *exposure, bool is_fetched);
  coll_status_t (*fetch)(wire_t *wire, int peer, const transport_exposure_t *exposure, void *dst,
                         size_t bytes, transport_fetch_t **fetch);
  coll_status_t (*advance)(wire_t *wire, transport_fetch_t *fetch, bool *done);
  void (*stop)(wire_t *wire, transport_fetch_t *fetch);

  /* The peer has left or died, or this rank leaves: nothing more is sent to it or received. */
  void (*disconnect)(wire_t *wire, int peer);

  /* Frees the wire. It has been attached or not. */
  void (*destroy)(wire_t *wire);
} wire_ops_t;

/* The object of every wire begins with this struct. */
struct wire {
  const wire_ops_t *ops;
  int descriptor; /* readable after arm when progress has something to do; stays the wire's */
  net_t *end;     /* set before the first call of the others */
  int rank, size; /* likewise */
};

/* ---- what a wire calls ---------------------------------------------------------------------*/

/* Passes a note to the peer's wire, over the socket. 0 < bytes <= WIRE_NOTE_BYTES. */
coll_status_t wire_tell(net_t *end, int peer, const void *note, size_t bytes);

/* `send` works from now on. */
coll_status_t wire_ready(net_t *end, int peer);

/* A frame has arrived, whose payload is in `message` (NULL if frame->bytes is 0 and its kind is not
 * NET_MESSAGE). Takes over the message. A frame that is none ends the connection. */
coll_status_t wire_arrived(net_t *end, int peer, const net_frame_t *frame, wire_message_t *message);

/* Some of what is fetched has come, so a sleeping rank looks again. */
void wire_fetched(net_t *end);

/* The wire can no longer reach the peer, which is lost. */
void wire_lost(net_t *end, int peer);

/* Memory for the payload of a frame. wire_message_data: where it belongs. COLL_ERROR_MEMORY. */
coll_status_t wire_message_create(size_t bytes, wire_message_t **message);
void *wire_message_data(wire_message_t *message);

/* A message whose memory belongs to the wire, `room` bytes at an address aligned to 16, is
 * released when it was taken: release is called with the lock held. Returns the message at its
 * beginning; the payload is at wire_message_data, WIRE_MESSAGE_HEAD_BYTES behind it. */
#define WIRE_MESSAGE_HEAD_BYTES 48
wire_message_t *wire_message_place(void *memory, size_t bytes,
                                   void (*release)(wire_message_t *message, void *owner),
                                   void *owner);

#endif
