/*
 * State of one rank's end of the transport, private to the files of this folder. One thread at a
 * time uses it, under the end's lock: beside the holder of the communicator's lock, any thread may
 * abort.
 */
#ifndef TRANSPORT_NET_END_H
#define TRANSPORT_NET_END_H

#include <pthread.h>
#include <sys/socket.h>

#include "transport/net/connect/connector.h"
#include "transport/net/connect/liveness.h"
#include "transport/net/frame.h"
#include "transport/net/wire/ops.h"

/* A message that has arrived and was not taken. */
struct wire_message {
  struct wire_message *next;
  flight_call_t call;
  size_t bytes;
  void (*release)(wire_message_t *message, void *owner); /* NULL: free */
  void *owner;
  _Alignas(16) char data[];
};

typedef struct net_peer net_peer_t;

/* Why a peer is lost. */
typedef enum net_loss {
  NET_LOSS_PROCESS, /* its process has ended */
  NET_LOSS_SILENT,  /* its host does not answer */
  NET_LOSS_BLOCKED, /* its host answers, but nothing that is sent arrives */
  NET_LOSS_REFUSED, /* its host answers, but the rank does not listen any more */
  NET_LOSS_LOCAL    /* this host cannot connect: see send_error */
} net_loss_t;

/* An address of peers. */
typedef struct net_host {
  struct sockaddr_storage address;
  socklen_t address_bytes;
  int probe; /* a connection that was begun to see whether the host answers; -1: none */
  net_question_t question;
} net_host_t;

/* A receive that was posted (ops.h: recv_post): the memory of a caller for the next message of a
 * channel. */
typedef struct net_post {
  char *data; /* [capacity]; NULL: none is posted */
  size_t capacity;
  bool done;             /* a message has arrived there */
  transport_head_t head; /* its header */
} net_post_t;

typedef struct net_block net_block_t;
enum { NET_BLOCK_KINDS = 4 };

/* A frame that has arrived before the ones before it. */
typedef struct net_early {
  struct net_early *next;
  net_frame_t frame;
  wire_message_t *message;
} net_early_t;

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

/* A frame that a socket has not accepted, or that the peer's library is not known to have received.
 */
typedef struct net_outgoing {
  struct net_outgoing *next;   /* in net_peer_t.unacked, if is_kept */
  struct net_outgoing *behind; /* in net_rail_t.output, if is_queued */
  bool is_kept, is_queued;     /* it is freed once it is neither */
  int rail;                    /* by which it goes, or was sent last; -1: it is to be sent */
  struct net_outgoing *next_lent, **lent_link; /* in net_t.lent; lent_link NULL: it is not there */
  net_peer_t *peer;
  char *payload; /* behind this struct, or the caller's while it is lent, or a block of its own */
  net_frame_t frame;
} net_outgoing_t;

/* One connection of a pair of ranks. There is one for each interface of the hosts that is used. */
typedef struct net_rail {
  net_peer_t *peer;
  int index;
  int fd;              /* -1: not connected yet, or closed */
  uint16_t made;       /* connections so far */
  bool is_wanted;      /* a connection was asked for */
  bool is_unreachable; /* and none can be made, so far: */
  bool is_refused;     /* nobody listens there */
  int silences;        /* how often it has become silent lately, */
  uint64_t silent_ns;  /* and when it last did */
  int host;            /* its address of the peer, in net_t.hosts */
  net_acks_t acks;

  /* Sending: what the socket did not accept. */
  net_outgoing_t *output, **output_end; /* output_end: where the next one is linked */
  size_t output_bytes;                  /* of frames and payloads there, */
  size_t written;                       /* of which the socket has accepted so many of the first */
  bool awaits_room;                     /* the wait set has the socket for writing too */
  bool is_mute;   /* the socket accepts nothing any more; what the peer sent can still arrive */
  int send_error; /* errno of it */

  /* Receiving: the frame that has arrived in part. */
  net_frame_t frame;
  size_t frame_bytes;      /* of `frame` that have arrived */
  char *place;             /* of its payload; NULL: not chosen yet, or it has none */
  wire_message_t *payload; /* whose memory that is; NULL: that of the channel's post */
  size_t payload_bytes;    /* that have arrived */
} net_rail_t;

/* What this rank has to do with one peer. */
struct net_peer {
  struct net *end;
  int rank;
  net_rail_t *rails;   /* [rail_count], of net_t.rails */
  int rail_count;      /* 1 until the pair is connected */
  int open_count;      /* rails that are connected */
  bool is_known;       /* one was connected once */
  bool is_closed;      /* there will be no connection any more */
  bool recovers;       /* connections that were reset are made again, and frames sent again */
  uint64_t awaited_ns; /* since when this rank waits for a peer without connection */
  net_loss_t loss;     /* if it is lost, */
  int lost_host;       /* and at which address, in net_t.hosts */
  int error;           /* errno of the loss */
  transport_peer_state_t state; /* a peer that has left may still take what was sent to it */
  net_fifo_t *fifos[TRANSPORT_CHANNELS_MAX]; /* NULL: not used */
  int long_posts;                            /* whose messages are read by a system call each */
  bool pauses; /* a post is done: what follows stays in the socket until the next poll */

  /* The order of frames, whichever rail they take (order.c). Counts are modulo 2^32. */
  uint32_t sent, acked;    /* numbered frames, and those that the peer has received */
  uint32_t received, told; /* likewise the peer's; those that the peer was told of */
  size_t untold_bytes;     /* of the payloads of those it was not told of */
  net_outgoing_t *unacked, **unacked_end; /* unacked_end: where the next one is linked */
  net_early_t *ahead;                     /* by ascending numbers */

  /* The wire, which both ranks have. */
  bool has_wire;                   /* as the names of the ranks say */
  bool is_asked;                   /* to connect */
  bool has_left_by_socket;         /* this rank has said NET_LEAVE before it has switched */
  bool sends_by_wire;              /* this rank has said NET_SWITCH */
  bool comes_by_wire;              /* the peer has */
  net_early_t *early, *early_last; /* frames that were faster than the peer's NET_SWITCH */

  flight_recorder_t *recorder; /* as the peer last published it; NULL: not asked for */
  bool record_due;             /* this rank's recorder is to be sent when there is room */
};

struct net {
  transport_t transport;
  pthread_mutex_t lock;
  net_peer_t *peers; /* [size]; that of this rank is unused */
  net_rail_t *rails; /* [size * rail_count], by peer */
  int rail_count;    /* that this rank has with a peer at most */
  bool is_mesh;      /* all pairs are connected at creation */
  net_recovery_t recovery;
  net_host_t *hosts; /* [host_count] */
  size_t host_count, host_capacity;
  int wait_set;                       /* an epoll descriptor: all sockets, and `wakeup` */
  int wakeup;                         /* an eventfd: another thread of this rank has aborted */
  char *scratch;                      /* [NET_SCRATCH_BYTES]: this rank's own */
  char *input;                        /* [NET_INPUT_BYTES]: bytes that have just arrived */
  flight_recorder_t *recorder;        /* this rank's own */
  const flight_recorder_t *published; /* what publish sends: that, or of another transport */

  struct {
    net_block_t *first;
    int count;
  } blocks[NET_BLOCK_KINDS]; /* free memory (blocks.c) */

  wire_t *wire; /* NULL: none */

  net_connector_t *connector; /* NULL: no more connections are made */
  int error;                  /* errno of a connection that could not be used; 0: none */
  bool is_complete;           /* it was created */
  bool is_leaving;            /* and is being destroyed */

  net_outgoing_t *lent;               /* frames whose payloads are callers' */
  int posts;                          /* receives that are posted */
  int unsent;                         /* rails for which something is stored */
  uint64_t arrivals, arrivals_at_arm; /* frames */
  bool wire_is_due;                   /* as it said at arm */
  bool is_armed;                      /* `sleeper` sleeps, or is about to */
  pthread_t sleeper;

  _Atomic uint32_t aborted; /* some rank aborts */
  bool proposed;            /* a reason is known, which becomes the verdict if there is no other */
  bool decided;             /* the reason is the verdict */
  uint64_t proposed_ns;
  transport_reason_t reason; /* the proposal, then the verdict */
};

#define NET_INPUT_BYTES 8192
#define NET_SCRATCH_BYTES ((size_t)512 << 10)
/* In the wait set, in place of an index in net_t.rails: `wakeup`, and the wire's descriptor. */
#define NET_WAKEUP_EVENT UINT32_MAX
#define NET_WIRE_EVENT (UINT32_MAX - 1)

static inline net_t *net_end_of(transport_t *t) {
  return (net_t *)(void *)t;
}

static inline net_fifo_t *net_fifo_of(transport_port_t *port) {
  return (net_fifo_t *)(void *)port;
}

/* A rank with which there is a connection. */
static inline bool net_peer_is_open(const net_peer_t *peer) {
  return peer->open_count > 0;
}

/* A rank with which there may be a connection later. */
static inline bool net_peer_is_pending(const net_peer_t *peer) {
  return !net_peer_is_open(peer) && !peer->is_closed && peer->state == TRANSPORT_PEER_HERE &&
         peer->end->connector != NULL;
}

/* A rank with which there is, or may be, a connection. */
static inline bool net_peer_is_within_reach(const net_peer_t *peer) {
  return net_peer_is_open(peer) || net_peer_is_pending(peer);
}

/* ---- open.c: connections that are made. The lock is held. ------------------------------------*/

/* The ranks to which the connection is made at creation: all, or the neighbours in a binary tree.
 */
bool net_end_is_first(const net_t *end, int peer);

/* Asks for a connection with a peer on every rail that is closed. COLL_ERROR_MEMORY. */
coll_status_t net_end_ask(net_peer_t *peer);

/* This rank waits for a peer. If that takes a while, it asks for the connection, which shows
 * whether the peer is still there. */
void net_end_waits_for(net_peer_t *peer);

/* Takes over the connection to a peer on a rail, the `made`th there, also on failure. One that was
 * there before is lost. False: the peer cannot be used, see net_t.error. */
bool net_end_connected(net_t *end, int rank, int rail, uint16_t made, int fd);

/* No connection can be made on a rail; address: of the peer. Whether the peer is given up, because
 * it has no other rail. */
bool net_end_unreachable(net_t *end, int rank, int rail, net_failure_t failure, int error,
                         const struct sockaddr_storage *address, socklen_t bytes);

/* ---- rails.c: the connections of a pair. The lock is held. -----------------------------------*/

/* Sends what was stored, and receives what has arrived by any rail: all, or until a post is done.
 * COLL_ERROR_MEMORY. */
coll_status_t net_rails_receive(net_peer_t *peer);

/* The part of a channel's next message that has arrived where a receive was posted moves to memory
 * of its own. */
void net_rails_leave_post(net_peer_t *peer, int channel);

/* Whether a socket has not accepted all that was to be sent. */
bool net_rails_is_stored(const net_peer_t *peer);

/* The connection has ended. What may not have arrived is sent again by another rail, or once
 * another connection is made. If it was the last rail, and the loss is not that of a process, whose
 * host would say so, the peer is lost. */
void net_rails_lost(net_rail_t *rail, net_loss_t loss);

/* Closes all connections; there will be no other. */
void net_rails_close(net_peer_t *peer, transport_peer_state_t state);

/* ---- order.c: frames in order, whichever rail they take. The lock is held. -------------------*/

/* Sends a frame and its payload, or stores it, with a copy of the payload unless it is lent. If the
 * peer is pending, asks for the connection. Does nothing if it is closed. COLL_ERROR_MEMORY. */
coll_status_t net_order_send(net_peer_t *peer, const net_frame_t *frame, const void *payload,
                             bool is_lent);

/* A rail is connected. Sends what waits for one. */
void net_order_open(net_peer_t *peer);

/* A rail is closed: what was sent by it and is not known to have arrived is to be sent again. */
void net_order_forget(const net_rail_t *rail);

/* The frame of a rail has arrived; is_posted: where a receive was posted. Takes over the payload.
 * Statuses: those of net_fifo_accept. */
coll_status_t net_order_accept(net_rail_t *rail, wire_message_t *payload, bool is_posted);

/* Whether the frame of a rail is the next one. */
bool net_order_is_next(const net_rail_t *rail);

/* Whether frames wait for a connection: unsent, or sent by one that was lost. */
bool net_order_is_waiting(const net_peer_t *peer);

/* Frees what this file has stored. */
void net_order_free(net_peer_t *peer);

/* ---- outgoing.c: frames that are stored. The lock is held. -----------------------------------*/

/* Makes one that is neither kept nor queued, with a copy of the payload unless it is lent.
 * COLL_ERROR_MEMORY. */
coll_status_t net_outgoing_create(net_peer_t *peer, const net_frame_t *frame, const void *payload,
                                  bool is_lent, net_outgoing_t **outgoing);

/* Frees it, if it is neither kept nor queued. */
void net_outgoing_free(net_outgoing_t *outgoing);

/* Copies all payloads that are lent. A peer for which there is no memory is lost. */
void net_outgoing_return_lent(net_t *end);

static inline size_t net_outgoing_bytes(const net_outgoing_t *outgoing) {
  return sizeof outgoing->frame + outgoing->frame.bytes;
}

/* ---- blocks.c: memory of frames. The lock is held. -------------------------------------------*/

/* As malloc and free, with some memory held for the next call. NULL: none. */
void *net_block_get(net_t *end, size_t bytes);
void net_block_put(net_t *end, void *memory, size_t bytes);
void net_blocks_free(net_t *end);

/* ---- wire/socket/socket.c: bytes of one connection. The lock is held.
 * ------------------------------------*/

/* Sends a frame and its payload, or stores what the socket does not accept. COLL_ERROR_MEMORY. */
coll_status_t socket_send(net_rail_t *rail, const net_frame_t *frame, const void *payload,
                          bool is_lent);

/* Sends a stored frame, now or when the socket accepts it. */
void socket_queue(net_rail_t *rail, net_outgoing_t *outgoing);

/* Sends what was stored, as far as the socket accepts it. */
void socket_flush(net_rail_t *rail);

/* Sends this rank's flight recorder, once what was stored before is sent: a peer that receives
 * slowly gets the latest state only. */
void socket_publish(net_peer_t *peer);

/* Receives what has arrived: all, or until a post is done. A peer that sends something else than
 * frames is lost. COLL_ERROR_MEMORY. */
coll_status_t socket_receive(net_rail_t *rail);

/* See net_rails_leave_post. */
coll_status_t socket_leave_post(net_rail_t *rail, int channel);

/* Closes the connection. */
void socket_close(net_rail_t *rail);

/* Frees a message, or returns its memory to the wire that owns it. NULL is allowed. */
void wire_message_release(wire_message_t *message);

/* Whether a peer that is in order can send such a frame. */
bool socket_is_frame(const net_peer_t *peer, const net_frame_t *frame);

/* Something has arrived, or a peer is gone. */
void socket_note_arrival(net_t *end);

/* ---- route.c: by the socket or the wire. The lock is held. ---------------------------------*/

/* As net_order_send. */
coll_status_t net_route_send(net_peer_t *peer, const net_frame_t *frame, const void *payload,
                             bool is_lent);

/* Receives what has arrived from a peer on the way that its messages take. COLL_ERROR_MEMORY, or a
 * failure of the wire. */
coll_status_t net_route_receive(net_peer_t *peer);

/* Receives what has arrived on both ways. */
coll_status_t net_route_receive_all(net_peer_t *peer);

/* A frame NET_NOTE or NET_SWITCH has arrived. */
coll_status_t net_route_accept(net_peer_t *peer, const net_frame_t *frame,
                               const wire_message_t *payload);

/* Whether something is stored here that is to be sent to the peer. */
bool net_route_is_stored(const net_peer_t *peer);

/* Whether something that was sent has not yet reached the peer's host. */
bool net_route_is_unsent(const net_peer_t *peer);

/* There is no connection any more: what has come by the wire is received first. */
void net_route_end(net_peer_t *peer);

/* Closes all connections for good. A peer that has said that it leaves does not become lost. */
void net_route_close(net_peer_t *peer);

/* Frees what this file has stored. */
void net_route_free(net_peer_t *peer);

/* ---- fifo.c: messages, signals and credits of one channel. The lock is held. -----------------*/

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

/* Whether a message of the channel may arrive where a receive is posted. */
bool net_fifo_has_post(const net_fifo_t *fifo, size_t bytes);

/* The oldest signal that was not taken. */
coll_status_t net_fifo_signaled(net_fifo_t *fifo, const flight_call_t **call);
coll_status_t net_fifo_take_signal(net_fifo_t *fifo);

/* Tells the peer how much was taken. */
coll_status_t net_fifo_credit(net_fifo_t *fifo);

/* Takes over a complete frame. The payload belongs to the callee. COLL_ERROR_INVALID: no frame that
 * the peer may send. */
coll_status_t net_fifo_accept(net_peer_t *peer, const net_frame_t *frame, wire_message_t *payload);

/* Takes note of a message that has arrived where a receive was posted. */
coll_status_t net_fifo_accept_posted(net_peer_t *peer, const net_frame_t *frame);

void net_fifo_free(net_fifo_t *fifo);

/* peer->recorder, of a rank without calls if it has published nothing. COLL_ERROR_MEMORY. */
coll_status_t net_fifo_recorder(net_peer_t *peer);

/* Ends a sleep of this rank. */
void net_abort_wake(const net_t *end);

/* ---- health.c: the lock is held --------------------------------------------------------------*/

/* Notes the address of the peer that the connection has or would have. COLL_ERROR_MEMORY. */
coll_status_t net_health_add(net_rail_t *rail, const struct sockaddr_storage *from,
                             socklen_t bytes);
void net_health_free(net_t *end);

/* Whether the addresses are equal, whatever their ports. */
bool net_health_is_same(const struct sockaddr_storage *a, const struct sockaddr_storage *b);

/* For wait loops: a rail is lost while there are others, if nothing that was sent by it is
 * acknowledged. The last one is lost, with all ranks at that address, if the host does not answer.
 */
void net_health_check(net_peer_t *peer);

/* A connection has ended with an errno; 0: the peer has closed it. */
void net_health_failed(net_rail_t *rail, int error);

/* Why it was lost: "" if its process has ended. */
void net_health_describe(const net_peer_t *peer, char why[TRANSPORT_WHY_BYTES]);

/* ---- abort.c: the lock is held ---------------------------------------------------------------*/

/* This rank, or the peer `from`, has a reason to abort. */
void net_abort_propose(net_t *end, int from, const transport_reason_t *reason);

/* A rank has decided. */
void net_abort_decide(net_t *end, const transport_reason_t *reason);

/* Tells a peer that has become connected. */
void net_abort_tell(net_peer_t *peer);

/* Decides if the rank that should have has been silent for too long. `now`: at once, because this
 * rank leaves. */
void net_abort_check(net_t *end, bool now);

/* ---- tcp.c -----------------------------------------------------------------------------------*/

extern const transport_ops_t net_ops;
extern const transport_fetch_ops_t net_fetch_ops;

/* The last frames to a peer. The lock is held. */
void net_end_say_leave(net_peer_t *peer);

#endif
