/*
 * How ranks find each other. Every rank listens on one port; the names of all ranks are exchanged
 * by the bootstrap. In a communicator of few ranks all connections are made when it is created.
 * In a large one these are those of a binary tree, over which aborts reach every rank, and all
 * others are made when they are first used. Whoever does not know the communicator's secret
 * (base/net/handshake.h) is hung up on, and never waited for.
 */
#ifndef TRANSPORT_TCP_CONNECT_H
#define TRANSPORT_TCP_CONNECT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/net/secret.h"
#include "base/status.h"
#include "transport/watch.h"

#define TCP_ADDRESSES 8
#define TCP_RAILS_MAX 8
#define TCP_MESH_RANKS 64 /* tcp_name_t.mesh_ranks, if nobody says otherwise */

/* Whose connections are made again when they were reset: those of ranks with different addresses,
 * as a connection within a host does not break; of all, for tests; or of none. */
typedef enum tcp_recovery {
  TCP_RECOVERY_HOSTS,
  TCP_RECOVERY_ALL,
  TCP_RECOVERY_NONE
} tcp_recovery_t;

/* An address of a rank's host: IPv4 in the first four bytes, or IPv6. */
typedef struct tcp_address {
  uint8_t is_ipv6;
  uint8_t rail; /* of its interface */
  uint8_t bytes[16];
} tcp_address_t;

/* How a rank can be reached. */
typedef struct tcp_name {
  uint16_t port;
  uint8_t count;
  uint8_t rails;    /* connections with each peer that has as many, each by its own interface */
  uint8_t recovery; /* of rank 0: tcp_recovery_t of all */
  tcp_address_t addresses[TCP_ADDRESSES];
  uint32_t megabits;   /* per second, of the fastest of these interfaces; 0: not known */
  uint32_t mesh_ranks; /* of rank 0: up to so many ranks are all connected at creation */
} tcp_name_t;

typedef struct tcp_listener {
  int fd; /* -1: closed */
} tcp_listener_t;

/* Listens at all addresses of this host. interfaces: those whose addresses the name gets
 * (topo/interfaces.h). If the list asks for several, each is a rail. Owned by the caller:
 * tcp_listener_close. COLL_ERROR_INVALID: the list is wrong. COLL_ERROR_SYSTEM. */
coll_status_t tcp_listen(tcp_listener_t *listener, const char *interfaces, tcp_name_t *name);
void tcp_listener_close(tcp_listener_t *listener);

/* The ranks that connect. */
typedef struct tcp_group {
  int rank, size;
  const tcp_name_t *names;     /* [size] */
  uint64_t session;            /* the same on all ranks */
  const base_secret_t *secret; /* likewise; who does not know it is hung up on */
  uint64_t deadline_ns;
  const transport_watch_t *watch; /* NULL: none */
  struct tcp_netmod *netmod;      /* of this rank; NULL: none */
  const bool *has_netmod;         /* [size]: the rank has the same; unused without one */
  bool any_netmod;                /* some rank has one */
} tcp_group_t;

#endif
