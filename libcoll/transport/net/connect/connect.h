/*
 * The connections of one rank with all others, each made when it is first used: a thread makes them
 * (connector.h), and gives them to the wire of sockets. A pair of ranks has one for each pair of
 * interfaces (a rail). If one is lost, the others carry what it had to deliver, and it is made
 * again. If it was the last one, the peer is lost when no other can be made.
 *
 * The lock is held in every call, but where a function says otherwise.
 */
#ifndef TRANSPORT_NET_CONNECT_CONNECT_H
#define TRANSPORT_NET_CONNECT_CONNECT_H

#include <pthread.h>
#include <sys/socket.h>

#include "transport/net/connect/liveness.h"
#include "transport/net/connect/names.h"
#include "transport/net/wire/ops.h"

typedef struct net_connector net_connector_t;
typedef struct net_pairs net_pairs_t;
typedef struct net_pair net_pair_t;

/* Why a peer is lost. */
typedef enum net_loss {
  NET_LOSS_PROCESS, /* its process has ended */
  NET_LOSS_SILENT,  /* its host does not answer */
  NET_LOSS_BLOCKED, /* its host answers, but nothing that is sent arrives */
  NET_LOSS_REFUSED, /* its host answers, but the rank does not listen any more */
  NET_LOSS_LOCAL,   /* this host cannot connect: see `error` */
  NET_LOSS_GIVEN_UP /* the peer has lost this rank: see `peer_loss` */
} net_loss_t;

/* One connection of a pair of ranks. */
typedef struct net_rail {
  net_pair_t *pair;
  int index;
  int link;            /* in the wire of sockets, and its place in net_pairs_t.rails */
  uint16_t made;       /* connections so far */
  bool is_wanted;      /* a connection was asked for */
  bool is_unreachable; /* and none can be made, so far: */
  bool is_refused;     /* nobody listens there */
  int silences;        /* how often it has become silent lately, */
  uint64_t silent_ns;  /* and when it last did */
  int host;            /* its address of the peer, in net_pairs_t.hosts */
  net_acks_t acks;
} net_rail_t;

/* The connections with one peer. */
struct net_pair {
  net_pairs_t *all;
  int rank;
  net_rail_t *rails;            /* [rail_count], of net_pairs_t.rails */
  int rail_count;               /* 1 until the pair is connected */
  int open_count;               /* rails that are connected */
  bool is_known;                /* one was connected once */
  bool is_closed;               /* there will be no connection any more */
  bool is_given_up;             /* by the peer, as it says: no connection is made again */
  bool recovers;                /* connections that were reset are made again */
  uint64_t awaited_ns;          /* since when this rank waits for a peer without connection */
  net_loss_t loss;              /* if it is lost, */
  int lost_host;                /* and at which address, in net_pairs_t.hosts */
  net_loss_t peer_loss;         /* why the peer has lost this rank, if is_given_up */
  int error;                    /* errno of the loss */
  transport_peer_state_t state; /* a peer that has left may still take what was sent to it */
};

/* What this room tells its owner. */
typedef struct net_pairs_owner_ops {
  /* A rail is connected, or others carry on without one: what waits for a rail is to be sent.
   * is_new: it is connected. */
  void (*opened)(net_pairs_t *pairs, int peer, bool is_new);

  /* A rail is closed: what was sent by it may not have arrived. */
  void (*closed)(net_pairs_t *pairs, int peer, int rail);

  /* There is no connection any more: what has come by another way is received before `ended`. */
  void (*ending)(net_pairs_t *pairs, int peer);

  /* There will be no connection any more. */
  void (*ended)(net_pairs_t *pairs, int peer);
} net_pairs_owner_ops_t;

struct net_pairs {
  const net_pairs_owner_ops_t *owner_ops;
  void *owner;
  int rank, size;
  pthread_mutex_t *lock; /* the owner's */
  wire_t *sockets;       /* likewise: a link for each rail */
  net_pair_t *pairs;     /* [size]; that of this rank is unused */
  net_rail_t *rails;     /* [size * rail_count], by peer */
  int rail_count;        /* that this rank has with a peer at most */
  bool is_mesh;          /* all pairs are connected at creation */
  net_recovery_t recovery;
  struct net_host *hosts; /* [host_count] */
  size_t host_count, host_capacity;
  net_connector_t *connector; /* NULL: no more connections are made */
  int error;                  /* errno of a connection that could not be used; 0: none */
};

/* A rank with which there is a connection. */
static inline bool net_pair_is_open(const net_pair_t *pair) {
  return pair->open_count > 0;
}

/* A rank with which there may be a connection later. */
static inline bool net_pair_is_pending(const net_pair_t *pair) {
  return !net_pair_is_open(pair) && !pair->is_closed && pair->state == TRANSPORT_PEER_HERE &&
         pair->all->connector != NULL;
}

/* A rank with which there is, or may be, a connection. */
static inline bool net_pair_is_within_reach(const net_pair_t *pair) {
  return net_pair_is_open(pair) || net_pair_is_pending(pair);
}

/* ---- life -----------------------------------------------------------------------------------*/

/* Pairs without connections, with so many rails at most; the members from owner_ops to sockets are
 * set by the caller. COLL_ERROR_MEMORY. Freed by net_pairs_free, also on failure. */
coll_status_t net_pairs_init(net_pairs_t *pairs, int rails);
void net_pairs_free(net_pairs_t *pairs);

/* Makes the connections of creation. Takes over the listener, also on failure. Statuses: those of
 * transport_net_create. The lock is not held. */
coll_status_t net_pairs_connect(net_pairs_t *pairs, net_listener_t *listener,
                                const net_group_t *group);

/* From now on no connections are made. Waits for the thread that makes them; the lock is not held.
 */
void net_pairs_end_connecting(net_pairs_t *pairs);

/* ---- connections ----------------------------------------------------------------------------*/

/* Asks for a connection with a peer on every rail that is closed. COLL_ERROR_MEMORY. */
coll_status_t net_pair_ask(net_pair_t *pair);

/* This rank waits for a peer. If that takes a while, it asks for the connection, which shows
 * whether the peer is still there. */
void net_pair_await(net_pair_t *pair);

/* Takes over the connection to a peer on a rail, the `made`th there, also on failure. One that was
 * there before is lost. False: the peer cannot be used, see net_pairs_t.error. */
bool net_pair_connected(net_pair_t *pair, int rail, uint16_t made, int fd);

/* The rail for a payload of so many bytes; NULL: none is connected and accepts something. */
const net_rail_t *net_pair_choose_rail(const net_pair_t *pair, size_t bytes);

/* Whether the rail, or some rail, is connected and accepts something. */
bool net_rail_accepts(const net_rail_t *rail);
bool net_pair_accepts(const net_pair_t *pair);

/* Whether a socket has not accepted all messages of the channel; channel -1: all frames. */
bool net_pair_holds(const net_pair_t *pair, int channel);

/* Whether the peer's host has not received all that the sockets have accepted, or one was reset,
 * which the next look at it shows. */
bool net_pair_is_queued(const net_pair_t *pair);

/* Closes all connections; there will be no other. */
void net_pair_close(net_pair_t *pair, transport_peer_state_t state);

/* The same; a peer that has said that it leaves does not become lost. */
void net_pair_give_up(net_pair_t *pair);

/* ---- loss -----------------------------------------------------------------------------------*/

/* For wait loops: a rail is lost while there are others, if nothing that was sent by it is
 * acknowledged. The last one is lost, with all ranks at that address, if the host does not answer.
 */
void net_pair_check(net_pair_t *pair);

/* A connection has ended (wire_owner_ops_t.lost). */
void net_rail_failed(net_rail_t *rail, int error);

/* Why the peer was lost: "" if its process has ended. */
void net_pair_describe(const net_pair_t *pair, char why[TRANSPORT_WHY_BYTES]);

#endif
