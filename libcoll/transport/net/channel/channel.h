/*
 * The channels of one rank to all others: messages, signals and credits in FIFOs (fifo.c), flight
 * recorders (records.c) and aborts (abort.c), which travel as frames. A frame goes by the sockets
 * of its pair or by another wire (route.c); over sockets frames are numbered and kept until the
 * peer has them (order.c).
 *
 * The lock is held in every call.
 */
#ifndef TRANSPORT_NET_CHANNEL_CHANNEL_H
#define TRANSPORT_NET_CHANNEL_CHANNEL_H

#include <pthread.h>
#include <stdatomic.h>

#include "transport/net/connect/connect.h"
#include "transport/net/frame.h"
#include "transport/net/wire/ops.h"

typedef struct net_peer net_peer_t;
typedef struct net_channels net_channels_t;
typedef struct net_outgoing net_outgoing_t;
typedef struct net_early net_early_t;

/* A receive that was posted (ops.h: recv_post): the memory of a caller for the next message of a
 * channel. */
typedef struct net_post {
  char *data; /* [capacity]; NULL: none is posted */
  size_t capacity;
  bool done;             /* a message has arrived there */
  transport_head_t head; /* its header */
} net_post_t;

/* Both directions of one channel to one peer. Counts are modulo 2^32. */
typedef struct net_fifo {
  transport_port_t port;
  net_peer_t *peer;
  uint16_t channel;
  bool used;            /* something was sent or has arrived */
  bool want_sent;       /* and not yet answered */
  bool wanted;          /* by the peer */
  uint32_t limit;       /* messages that the receiver has not taken */
  uint32_t sent, acked; /* messages, and those that the peer has taken, as far as known here */
  size_t unacked_bytes; /* of those between */
  uint32_t signals_sent, signals_acked;
  uint32_t arrived, taken, told; /* messages; those whose taking the peer was told of */
  size_t untold_bytes;           /* of those between taken and told */
  uint32_t signals_arrived, signals_taken, signals_told;
  wire_message_t *oldest, *newest;       /* arrived and not taken */
  net_post_t post;                       /* while there is no oldest */
  flight_call_t signals[NET_SIGNALS];    /* likewise; signal n at [n % NET_SIGNALS] */
  flight_call_t calls[NET_P2P_MESSAGES]; /* of messages sent; message n at [n % limit] */
  uint32_t bytes[NET_P2P_MESSAGES];      /* likewise */
} net_fifo_t;

/* What this rank has to do with one peer. */
struct net_peer {
  net_channels_t *all;
  net_pair_t *pair;
  int rank;
  net_fifo_t *fifos[TRANSPORT_CHANNELS_MAX]; /* NULL: not used */
  int long_posts;                            /* whose messages are read by a system call each */
  bool pauses; /* a post is done: what follows stays in the socket until the next poll */

  /* The order of frames, whichever rail they take (order.c). Counts are modulo 2^32. */
  uint32_t sent, acked;    /* numbered frames, and those that the peer has received */
  uint32_t received, told; /* likewise the peer's; those that the peer was told of */
  size_t untold_bytes;     /* of the payloads of those it was not told of */
  net_outgoing_t *unacked, **unacked_end; /* unacked_end: where the next one is linked */
  net_early_t *ahead;                     /* by ascending numbers */

  /* The wire in place of sockets, which both ranks have (route.c). */
  bool has_wire;                   /* as the names of the ranks say */
  bool is_asked;                   /* to connect */
  bool has_left_by_socket;         /* this rank has said NET_LEAVE before it has switched */
  bool sends_by_wire;              /* this rank has said NET_SWITCH */
  bool comes_by_wire;              /* the peer has */
  net_early_t *early, *early_last; /* frames that were faster than the peer's NET_SWITCH */

  flight_recorder_t *recorder; /* as the peer last published it; NULL: not asked for */
  bool record_due;             /* this rank's recorder is to be sent when there is room */
};

enum { NET_BLOCK_KINDS = 5 };

struct net_channels {
  transport_t *transport;
  net_pairs_t *pairs;
  wire_t *sockets;   /* a link for each rail of pairs */
  wire_t *wire;      /* a link for each rank; NULL: none */
  net_peer_t *peers; /* [size]; that of this rank is unused */
  bool is_leaving;   /* this rank is being destroyed */

  flight_recorder_t *recorder;        /* this rank's own */
  const flight_recorder_t *published; /* what publish sends: that, or of another transport */

  struct {
    struct net_block *first;
    int count;
  } blocks[NET_BLOCK_KINDS]; /* free memory (blocks.c) */
  net_outgoing_t *lent;      /* frames whose payloads are callers' */
  int posts;                 /* receives that are posted */

  uint64_t arrivals, arrivals_at_arm; /* frames */
  int wakeup;                         /* an eventfd that ends a sleep of this rank */
  bool is_armed;                      /* `sleeper` sleeps, or is about to */
  pthread_t sleeper;

  _Atomic uint32_t aborted; /* some rank aborts */
  bool proposed;            /* a reason is known, which becomes the verdict if there is no other */
  bool decided;             /* the reason is the verdict */
  uint64_t proposed_ns;
  transport_reason_t reason; /* the proposal, then the verdict */
};

/* ---- life (peers.c) -------------------------------------------------------------------------*/

/* Peers without channels; the members from transport to wire are set by the caller, and wakeup -1.
 * COLL_ERROR_MEMORY, COLL_ERROR_SYSTEM. Freed by net_channels_free, also on failure, before which
 * the wires are destroyed. */
coll_status_t net_channels_init(net_channels_t *channels);
void net_channels_free(net_channels_t *channels);

/* The last frames to a peer. */
void net_peer_say_leave(net_peer_t *peer);

/* Frees what is stored for a peer, and its channels. */
void net_peer_free(net_peer_t *peer);

/* What the rooms below call: the connections, the wire of sockets, and the other one. */
extern const net_pairs_owner_ops_t net_channels_of_pairs;
extern const wire_owner_ops_t net_channels_of_sockets;
extern const wire_owner_ops_t net_channels_of_wire;

/* ---- FIFOs (fifo.c) -------------------------------------------------------------------------*/

static inline net_fifo_t *net_fifo_of(transport_port_t *port) {
  return (net_fifo_t *)(void *)port;
}

/* The FIFO, which is made if there is none. COLL_ERROR_MEMORY. */
coll_status_t net_fifo_find(net_peer_t *peer, int channel, net_fifo_t **fifo);

/* *done is false, and nothing is sent, if the peer has not taken enough. is_lent: the data stays
 * until net_outgoing_return_lent. */
coll_status_t net_fifo_send(net_fifo_t *fifo, const void *data, const transport_head_t *head,
                            bool is_lent, bool *done);
coll_status_t net_fifo_signal(net_fifo_t *fifo, const flight_call_t *call, bool *done);

/* The oldest message that was not taken; NULL: none has arrived. */
coll_status_t net_fifo_oldest(net_fifo_t *fifo, wire_message_t **message);
coll_status_t net_fifo_take(net_fifo_t *fifo);

/* The slots of ops.h. */
coll_status_t net_fifo_peek(net_fifo_t *fifo, const void **data, transport_head_t *head,
                            bool *done);
coll_status_t net_fifo_recv(net_fifo_t *fifo, void *data, size_t capacity, transport_head_t *head,
                            bool *done);
coll_status_t net_fifo_recv_post(net_fifo_t *fifo, void *data, size_t capacity,
                                 transport_head_t *head, bool *done);
void net_fifo_cancel(net_fifo_t *fifo);

/* The oldest signal that was not taken. */
coll_status_t net_fifo_signaled(net_fifo_t *fifo, const flight_call_t **call);
coll_status_t net_fifo_take_signal(net_fifo_t *fifo);

/* Copies all payloads that are lent. A peer for which there is no memory is lost (outgoing.c). */
void net_outgoing_return_lent(net_channels_t *channels);

/* ---- receiving (route.c) --------------------------------------------------------------------*/

/* Receives from a peer on the way that its messages take: by sockets, no further than to the end of
 * a long payload. COLL_ERROR_MEMORY, or a failure of the wire. */
coll_status_t net_route_receive(net_peer_t *peer);

/* Receives all that has arrived on both ways. */
coll_status_t net_route_receive_all(net_peer_t *peer);

/* Sends what was stored, as far as possible, and receives. As drained of transport/ops.h. */
bool net_route_drain(net_peer_t *peer, int channel);

/* Whether something that was sent has not yet reached the peer's host. */
bool net_route_is_unsent(const net_peer_t *peer);

/* Something has arrived, or a peer is gone (arrivals.c). */
void net_note_arrival(net_channels_t *channels);

/* ---- records (records.c) --------------------------------------------------------------------*/

/* Sends this rank's flight recorder, once what was stored before is sent: a peer that receives
 * slowly gets the latest state only. */
void net_record_publish(net_peer_t *peer);

/* peer->recorder, of a rank without calls if it has published nothing. COLL_ERROR_MEMORY. */
coll_status_t net_record_find(net_peer_t *peer);

/* ---- aborts (abort.c) -----------------------------------------------------------------------*/

/* This rank, or the peer `from`, has a reason to abort. */
void net_abort_propose(net_channels_t *channels, int from, const transport_reason_t *reason);

/* Decides if the rank that should have has been silent for too long. `now`: at once, because this
 * rank leaves. */
void net_abort_check(net_channels_t *channels, bool now);

#endif
