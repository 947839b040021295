/*
 * How ranks find each other. Every rank listens on one port; the names of all ranks are exchanged
 * by the bootstrap. In a communicator of few ranks all connections are made when it is created.
 * In a large one these are those of a binary tree, over which aborts reach every rank, and all
 * others are made when they are first used. Whoever does not know the communicator's secret
 * (base/net/handshake.h) is hung up on, and never waited for.
 */
#ifndef TRANSPORT_NET_CONNECT_NAMES_H
#define TRANSPORT_NET_CONNECT_NAMES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/net/secret.h"
#include "base/status.h"
#include "transport/watch.h"

#define NET_ADDRESSES 8
#define NET_RAILS_MAX 8
#define NET_MESH_RANKS 64 /* net_name_t.mesh_ranks, if nobody says otherwise */

/* Whose connections are made again when they were reset: those of ranks with different addresses,
 * as a connection within a host does not break; of all, for tests; or of none. */
typedef enum net_recovery {
  NET_RECOVERY_HOSTS,
  NET_RECOVERY_ALL,
  NET_RECOVERY_NONE
} net_recovery_t;

/* An address of a rank's host: IPv4 in the first four bytes, or IPv6. */
typedef struct net_address {
  uint8_t is_ipv6;
  uint8_t rail; /* of its interface */
  uint8_t bytes[16];
} net_address_t;

/* How a rank can be reached. */
typedef struct net_name {
  uint16_t port;
  uint8_t count;
  uint8_t rails;    /* connections with each peer that has as many, each by its own interface */
  uint8_t recovery; /* of rank 0: net_recovery_t of all */
  net_address_t addresses[NET_ADDRESSES];
  uint32_t megabits;   /* per second, of the fastest of these interfaces; 0: not known */
  uint32_t mesh_ranks; /* of rank 0: up to so many ranks are all connected at creation */
} net_name_t;

typedef struct net_listener {
  int fd; /* -1: closed */
} net_listener_t;

/* Listens at all addresses of this host. interfaces: those whose addresses the name gets
 * (topo/interfaces.h). If the list asks for several, each is a rail. Owned by the caller:
 * net_listener_close. COLL_ERROR_INVALID: the list is wrong. COLL_ERROR_SYSTEM. */
coll_status_t net_listen(net_listener_t *listener, const char *interfaces, net_name_t *name);
void net_listener_close(net_listener_t *listener);

/* The ranks that connect. */
typedef struct net_group {
  int rank, size;
  const net_name_t *names;     /* [size] */
  uint64_t session;            /* the same on all ranks */
  const base_secret_t *secret; /* likewise; who does not know it is hung up on */
  uint64_t deadline_ns;
  const transport_watch_t *watch; /* NULL: none */
  struct wire *wire;              /* of this rank; NULL: none */
  const bool *has_wire;           /* [size]: the rank has the same; NULL: all have */
  bool any_wire;                  /* some rank has one */
} net_group_t;

#endif
