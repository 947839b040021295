/*
 * A wire is a way for frames between this rank and its peers: sockets, RDMA, UCX. This is the table
 * that each implements, and the one by which it calls its owner; it knows nothing else of it. The
 * rank's end of a wire has a number of links, each to one peer.
 *
 * A wire connects its links itself: its two ends tell each other how by notes, which the owner
 * carries. Or the owner gives it connections (socket/socket.h). It delivers the frames of a link
 * once and in the order of sending, each with its payload, until the link is lost.
 *
 * One thread at a time uses a wire and is called by it: the owner has a lock. What a wire calls may
 * call its `send` and `disconnect`.
 */
#ifndef TRANSPORT_NET_WIRE_OPS_H
#define TRANSPORT_NET_WIRE_OPS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"
#include "transport/net/frame.h"

#define WIRE_NOTE_BYTES 4096 /* of a note, at most */

typedef struct wire wire_t;

/* The payload of a frame that has arrived. */
typedef struct wire_message {
  struct wire_message *next; /* the owner's, as `call` */
  flight_call_t call;
  size_t bytes;
  void (*release)(struct wire_message *message, void *context);
  void *context;
  _Alignas(16) char data[];
} wire_message_t;

/* In front of a payload whose memory is not the owner's: wire_message_at. */
#define WIRE_MESSAGE_HEAD_BYTES 48
_Static_assert(offsetof(wire_message_t, data) == WIRE_MESSAGE_HEAD_BYTES, "wires rely on it");

/* A frame that waits in a wire. It is its owner's. */
typedef struct wire_outgoing {
  struct wire_outgoing *behind; /* the wire's, as is_queued */
  bool is_queued;
  char *payload;
  net_frame_t frame;
} wire_outgoing_t;

/* What a wire calls; wire->owner is the owner. */
typedef struct wire_owner_ops {
  /* ==== of all wires ==========================================================================*/

  /* Memory for a payload. COLL_ERROR_MEMORY. */
  coll_status_t (*message)(wire_t *wire, size_t bytes, wire_message_t **message);

  /* A frame has arrived. Its payload is in `message`, which belongs to the owner, or at the place
   * that the owner has chosen (is_placed); NULL without either. Statuses: a failure of this rank;
   * if the peer may not send the frame, the owner disconnects the link. */
  coll_status_t (*arrived)(wire_t *wire, int link, const net_frame_t *frame,
                           wire_message_t *message, bool is_placed);

  /* The link can no longer be used, as any call may find; the owner disconnects it. error: errno;
   * 0: the peer has closed it; EBADMSG: what has arrived cannot be understood, or not be stored. */
  void (*lost)(wire_t *wire, int link, int error);

  /* ==== of those that connect by notes, else unused ===========================================*/

  /* Passes a note to the peer's end of the link. 0 < bytes <= WIRE_NOTE_BYTES. */
  coll_status_t (*tell)(wire_t *wire, int link, const void *note, size_t bytes);

  /* `send` works from now on. */
  coll_status_t (*ready)(wire_t *wire, int link);

  /* Some of what is fetched has come, so a rank that sleeps, or has just called arm, looks again.
   */
  void (*fetched)(wire_t *wire);

  /* ==== of those that are given connections, else unused ======================================*/

  /* The head of a frame has arrived: whether the peer may send it. */
  bool (*is_frame)(wire_t *wire, int link, const net_frame_t *frame);

  /* Where a payload that begins to arrive is to be stored, frame->bytes of it; NULL: in a message.
   */
  char *(*place)(wire_t *wire, int link, const net_frame_t *frame);

  /* Whether a long payload is expected, before which only its head is to be read. */
  bool (*expects_long)(wire_t *wire, int link);

  /* Makes what `send` cannot send yet. COLL_ERROR_MEMORY. */
  coll_status_t (*store)(wire_t *wire, int link, const net_frame_t *frame, const void *payload,
                         bool is_lent, wire_outgoing_t **outgoing);

  /* It is sent, or never will be: the wire no longer uses it. */
  void (*unqueued)(wire_t *wire, wire_outgoing_t *outgoing);

  /* All that waited in the link is sent. */
  void (*flushed)(wire_t *wire, int link);
} wire_owner_ops_t;

typedef struct wire_ops {
  const char *name;

  /* ==== of all wires ==========================================================================*/

  /* Sends a frame with frame->bytes of payload, or stores it, by a copy unless the wire can do
   * without and the payload stays where it is (is_lent). The link is connected.
   * COLL_ERROR_MEMORY. */
  coll_status_t (*send)(wire_t *wire, int link, const net_frame_t *frame, const void *payload,
                        bool is_lent);

  /* Passes on what has arrived by the link (-1: by any, of wires that connect by notes), and where
   * links share what they receive by, by any; of wires with `leave_place` only until a payload is
   * placed or a long one has arrived, so that the owner may have a place for the next one. Sends
   * what was stored, of wires without `flush`. Never blocks. Statuses: a failure of this rank, not
   * of the link. */
  coll_status_t (*progress)(wire_t *wire, int link);

  /* From now on the descriptor becomes readable when flush or progress has something to do. False:
   * it has something to do now. */
  bool (*arm)(wire_t *wire);

  /* Whether a message of the channel that was sent (channel -1: any frame) moves on only while this
   * rank calls progress or flush. It may be true because of other frames. */
  bool (*holds)(wire_t *wire, int link, int channel);

  /* Whether something that was sent has not yet reached the peer's host. */
  bool (*is_unsent)(const wire_t *wire, int link);

  /* Nothing more is sent by the link or received. */
  void (*disconnect)(wire_t *wire, int link);

  /* Frees the wire, whether it has an owner or not. */
  void (*destroy)(wire_t *wire);

  /* ==== of those that connect by notes, else NULL =============================================*/

  /* Begins to connect a link; called once for each. When it can send, it calls `ready`, within this
   * call or later. Statuses: a failure ends the call of the user. */
  coll_status_t (*connect)(wire_t *wire, int link);

  /* The peer's end has told this one something. It may come before `connect`, which then is still
   * called if this rank sends something. */
  coll_status_t (*hear)(wire_t *wire, int link, const void *note, size_t bytes);

  /* The slots of transport_fetch_ops_t, for a link that is ready at both ends; NULL: there are
   * none. `fetch` is begin; the caller sets the port. */
  coll_status_t (*expose)(wire_t *wire, int link, const void *data, size_t bytes,
                          transport_exposure_t *exposure, bool *exposed);
  void (*withdraw)(wire_t *wire, int link, const transport_exposure_t *exposure, bool is_fetched);
  coll_status_t (*fetch)(wire_t *wire, int link, const transport_exposure_t *exposure, void *dst,
                         size_t bytes, transport_fetch_t **fetch);
  coll_status_t (*advance)(wire_t *wire, transport_fetch_t *fetch, bool *done);
  void (*stop)(wire_t *wire, transport_fetch_t *fetch);

  /* ==== of those that are given connections, else NULL ========================================*/

  /* Sends a frame from the memory of the owner, now or later, and calls `unqueued` when it is done.
   * For frames that another connection may have to carry. Between two calls the owner may move the
   * payload. */
  void (*queue)(wire_t *wire, int link, wire_outgoing_t *outgoing);

  /* Sends what was stored, as far as possible; link -1: of all. */
  void (*flush)(wire_t *wire, int link);

  /* The memory at a place is not to be used any more: a payload that is arriving there moves.
   * COLL_ERROR_MEMORY. */
  coll_status_t (*leave_place)(wire_t *wire, int link, const char *place);
} wire_ops_t;

/* The object of every wire begins with this struct. */
struct wire {
  const wire_ops_t *ops;
  int descriptor; /* see arm; the wire's */

  /* set before the first call of another slot than destroy */
  const wire_owner_ops_t *owner_ops;
  void *owner;
  int rank;
  int size; /* links; of wires that connect by notes one to each rank, numbered as these */
};

/* ---- messages -------------------------------------------------------------------------------*/

/* A message at the beginning of `bytes` bytes behind its head, at an address aligned to 16. */
static inline wire_message_t *wire_message_at(void *memory, size_t bytes,
                                              void (*release)(wire_message_t *message,
                                                              void *context),
                                              void *context) {
  wire_message_t *message = (wire_message_t *)memory;
  *message = (wire_message_t){.bytes = bytes, .release = release, .context = context};
  return message;
}

/* NULL is allowed. */
static inline void wire_message_release(wire_message_t *message) {
  if (message != NULL) message->release(message, message->context);
}

#endif
