/* What the files of this folder share. The lock is held in every call. */
#ifndef TRANSPORT_NET_CHANNEL_STATE_H
#define TRANSPORT_NET_CHANNEL_STATE_H

#include "transport/net/channel/channel.h"

/* A frame that has arrived before the ones before it. */
struct net_early {
  struct net_early *next;
  net_frame_t frame;
  wire_message_t *message;
};

/* A frame that a socket has not accepted, or that the peer's library is not known to have received.
 */
struct net_outgoing {
  wire_outgoing_t base; /* the payload is behind this struct, or lent, or in a block of its own */
  struct net_outgoing *next; /* in net_peer_t.unacked, if is_kept */
  bool is_kept;              /* it is freed once it is neither kept nor queued */
  int rail;                  /* by which it goes, or was sent last; -1: it is to be sent */
  struct net_outgoing *next_lent, **lent_link; /* in net_channels_t.lent; NULL: it is not there */
  net_peer_t *peer;
};

/* ---- fifo.c ----------------------------------------------------------------------------------*/

/* Whether a message of the channel may arrive where a receive is posted. */
bool net_fifo_has_post(const net_fifo_t *fifo, size_t bytes);

/* Takes note of a message that has arrived where a receive was posted. */
coll_status_t net_fifo_accept_posted(net_peer_t *peer, const net_frame_t *frame);

/* Takes over a frame of a channel, with its payload. COLL_ERROR_INVALID: none that the peer may
 * send. */
coll_status_t net_fifo_accept(net_peer_t *peer, const net_frame_t *frame, wire_message_t *payload);

/* Tells the peer how much was taken. */
coll_status_t net_fifo_credit(net_fifo_t *fifo);

void net_fifo_free(net_fifo_t *fifo);

/* ---- route.c ---------------------------------------------------------------------------------*/

/* As net_order_send. */
coll_status_t net_route_send(net_peer_t *peer, const net_frame_t *frame, const void *payload,
                             bool is_lent);

/* A frame NET_NOTE or NET_SWITCH has arrived. */
coll_status_t net_route_accept(net_peer_t *peer, const net_frame_t *frame,
                               const wire_message_t *payload);

/* Whether something is stored here that is to be sent to the peer. */
bool net_route_is_stored(const net_peer_t *peer);

/* The slots tell, ready and arrived of wire_owner_ops_t, of the wire in place of sockets. */
coll_status_t net_route_tell(wire_t *wire, int rank, const void *note, size_t bytes);
coll_status_t net_route_ready(wire_t *wire, int rank);
coll_status_t net_route_arrived(wire_t *wire, int rank, const net_frame_t *frame,
                                wire_message_t *message, bool is_placed);

/* Nothing is posted there any more: what is arriving there moves. */
void net_route_leave_place(net_peer_t *peer, const char *place);

/* There is no connection any more: receives what has come by the wire. */
void net_route_end(net_peer_t *peer);

/* Frees what this file has stored. */
void net_route_free(net_peer_t *peer);

/* ---- order.c ---------------------------------------------------------------------------------*/

/* Sends a frame and its payload, or stores it, with a copy of the payload unless it is lent. If the
 * peer is pending, asks for the connection. Does nothing if it is closed. COLL_ERROR_MEMORY. */
coll_status_t net_order_send(net_peer_t *peer, const net_frame_t *frame, const void *payload,
                             bool is_lent);

/* A rail is connected. Sends what waits for one. */
void net_order_open(net_peer_t *peer);

/* Tells the peer what has arrived, if it keeps that; also when a rail is connected anew, as
 * NET_RECEIVED may have been lost. COLL_ERROR_MEMORY. */
coll_status_t net_order_tell(net_peer_t *peer);

/* A rail is closed: what was sent by it and is not known to have arrived is to be sent again. */
void net_order_forget(net_peer_t *peer, int rail);

/* A frame has arrived by a rail; is_posted: where a receive was posted. Takes over the payload.
 * Statuses: those of net_arrival_accept. */
coll_status_t net_order_accept(net_peer_t *peer, const net_frame_t *frame, wire_message_t *payload,
                               bool is_posted);

/* Whether something waits for a connection, or for a socket to accept it; and whether no message of
 * a channel does, channel -1: no frame. */
bool net_order_is_stored(const net_peer_t *peer);
bool net_order_is_drained(const net_peer_t *peer, int channel);

/* Frees what this file has stored. */
void net_order_free(net_peer_t *peer);

/* ---- outgoing.c ------------------------------------------------------------------------------*/

/* Makes one that is neither kept nor queued, with a copy of the payload unless it is lent.
 * COLL_ERROR_MEMORY. */
coll_status_t net_outgoing_create(net_peer_t *peer, const net_frame_t *frame, const void *payload,
                                  bool is_lent, net_outgoing_t **outgoing);

/* Frees it, if it is neither kept nor queued. */
void net_outgoing_free(net_outgoing_t *outgoing);

/* ---- blocks.c --------------------------------------------------------------------------------*/

/* As malloc and free, with some memory held for the next call. NULL: none. */
void *net_block_get(net_channels_t *channels, size_t bytes);
void net_block_put(net_channels_t *channels, void *memory, size_t bytes);
void net_blocks_free(net_channels_t *channels);

/* ---- arrivals.c ------------------------------------------------------------------------------*/

/* Takes over a complete frame, whose turn it is. The payload belongs to the callee; NULL: none.
 * COLL_ERROR_INVALID: no frame that the peer may send. */
coll_status_t net_arrival_accept(net_peer_t *peer, const net_frame_t *frame,
                                 wire_message_t *payload);

/* Whether a peer that is in order can send such a frame. */
bool net_arrival_is_frame(const net_peer_t *peer, const net_frame_t *frame);

/* ---- records.c -------------------------------------------------------------------------------*/

/* A peer's recorder has arrived; clock_ns: of its sender. COLL_ERROR_MEMORY. */
coll_status_t net_record_accept(net_peer_t *peer, uint64_t clock_ns, const char *payload);

/* ---- abort.c ---------------------------------------------------------------------------------*/

/* A reason has arrived. COLL_ERROR_INVALID. */
coll_status_t net_abort_accept(net_peer_t *peer, net_kind_t kind, const char *payload);

/* Tells a peer that has become connected. */
void net_abort_tell(net_peer_t *peer);

/* Ends a sleep of this rank. */
void net_abort_wake(const net_channels_t *channels);

#endif
