/*
 * Another way for frames than sockets, such as RDMA, between ranks that both have it. The socket of
 * every pair of ranks stays: the netmods of the two tell each other over it how to connect, and it
 * carries aborts and detects death.
 *
 * A pair begins on its socket. The first message asks the netmod to connect; once it is ready, the
 * last frame over the socket says so (TCP_SWITCH), and all further ones go by the netmod. Each
 * direction switches on its own.
 *
 * A netmod delivers frames of a peer once and in the order of sending, each with its payload. The
 * end's lock is held in every call, in both directions. What a netmod calls may call its `send`.
 */
#ifndef TRANSPORT_TCP_NETMOD_H
#define TRANSPORT_TCP_NETMOD_H

#include <stdbool.h>

#include "base/status.h"
#include "transport/tcp/frame.h"

#define TCP_NOTE_BYTES 4096 /* of a note, at most */

typedef struct tcp_netmod tcp_netmod_t;
typedef struct tcp_message tcp_message_t;
typedef struct tcp tcp_t;

typedef struct tcp_netmod_ops {
  const char *name;

  /* Begins to connect with a peer; called once per peer. When it can send, it calls
   * tcp_netmod_ready, within this call or later. Statuses: a failure ends the call of the user. */
  coll_status_t (*connect)(tcp_netmod_t *netmod, int peer);

  /* The peer's netmod has told this one something (tcp_netmod_tell). It may come before `connect`,
   * which then is still called if this rank sends something. */
  coll_status_t (*hear)(tcp_netmod_t *netmod, int peer, const void *note, size_t bytes);

  /* Sends a frame with frame->bytes of payload, or stores a copy. Called once ready. */
  coll_status_t (*send)(tcp_netmod_t *netmod, int peer, const tcp_frame_t *frame,
                        const void *payload);

  /* Passes on (tcp_netmod_arrived) what has arrived from any peer, and sends what was stored, as
   * far as possible. Never blocks. */
  coll_status_t (*progress)(tcp_netmod_t *netmod);

  /* From now on the descriptor becomes readable when progress has something to do. False: it has
   * something to do now. */
  bool (*arm)(tcp_netmod_t *netmod);

  /* Whether something that was sent to the peer has not yet reached its host. */
  bool (*is_unsent)(const tcp_netmod_t *netmod, int peer);

  /* The slots of transport_fetch_ops_t, for a pair that is ready in both directions; expose NULL:
   * there are none. `fetch` is begin; the caller sets the port. */
  coll_status_t (*expose)(tcp_netmod_t *netmod, int peer, const void *data, size_t bytes,
                          transport_exposure_t *exposure, bool *exposed);
  void (*withdraw)(tcp_netmod_t *netmod, int peer, const transport_exposure_t *exposure,
                   bool is_fetched);
  coll_status_t (*fetch)(tcp_netmod_t *netmod, int peer, const transport_exposure_t *exposure,
                         void *dst, size_t bytes, transport_fetch_t **fetch);
  coll_status_t (*advance)(tcp_netmod_t *netmod, transport_fetch_t *fetch, bool *done);
  void (*stop)(tcp_netmod_t *netmod, transport_fetch_t *fetch);

  /* The peer has left or died, or this rank leaves: nothing more is sent to it or received. */
  void (*disconnect)(tcp_netmod_t *netmod, int peer);

  /* Frees the netmod. It has been attached or not. */
  void (*destroy)(tcp_netmod_t *netmod);
} tcp_netmod_ops_t;

/* The object of every netmod begins with this struct. */
struct tcp_netmod {
  const tcp_netmod_ops_t *ops;
  int descriptor; /* readable after arm when progress has something to do; stays the netmod's */
  tcp_t *end;     /* set before the first call of the others */
  int rank, size; /* likewise */
};

/* ---- what a netmod calls ---------------------------------------------------------------------*/

/* Passes a note to the peer's netmod, over the socket. 0 < bytes <= TCP_NOTE_BYTES. */
coll_status_t tcp_netmod_tell(tcp_t *end, int peer, const void *note, size_t bytes);

/* `send` works from now on. */
coll_status_t tcp_netmod_ready(tcp_t *end, int peer);

/* A frame has arrived, whose payload is in `message` (NULL if frame->bytes is 0 and its kind is not
 * TCP_MESSAGE). Takes over the message. A frame that is none ends the connection. */
coll_status_t tcp_netmod_arrived(tcp_t *end, int peer, const tcp_frame_t *frame,
                                 tcp_message_t *message);

/* Some of what is fetched has come, so a sleeping rank looks again. */
void tcp_netmod_fetched(tcp_t *end);

/* The netmod can no longer reach the peer, which is lost. */
void tcp_netmod_lost(tcp_t *end, int peer);

/* Memory for the payload of a frame. tcp_message_data: where it belongs. COLL_ERROR_MEMORY. */
coll_status_t tcp_message_create(size_t bytes, tcp_message_t **message);
void *tcp_message_data(tcp_message_t *message);

/* A message whose memory belongs to the netmod, `room` bytes at an address aligned to 16, is
 * released when it was taken: release is called with the lock held. Returns the message at its
 * beginning; the payload is at tcp_message_data, TCP_MESSAGE_HEAD_BYTES behind it. */
#define TCP_MESSAGE_HEAD_BYTES 48
tcp_message_t *tcp_message_place(void *memory, size_t bytes,
                                 void (*release)(tcp_message_t *message, void *owner), void *owner);

#endif
