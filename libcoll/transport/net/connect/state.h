/* What the files of this folder share. The lock is held in every call. */
#ifndef TRANSPORT_NET_CONNECT_STATE_H
#define TRANSPORT_NET_CONNECT_STATE_H

#include "transport/net/connect/attempt.h"
#include "transport/net/connect/connect.h"
#include "transport/net/wire/socket/socket.h"

/* An address of peers. */
typedef struct net_host {
  struct sockaddr_storage address;
  socklen_t address_bytes;
  int probe; /* a connection that was begun to see whether the host answers; -1: none */
  net_question_t question;
} net_host_t;

/* -1: not connected yet, or closed. */
static inline int net_rail_fd(const net_rail_t *rail) {
  return socket_wire_fd(rail->pair->all->sockets, rail->link);
}

/* ---- open.c ----------------------------------------------------------------------------------*/

/* No connection can be made on a rail; address: of the peer; error: as of net_attempt_t. Whether no
 * more is to be tried, because the peer has no other rail, or refuses. */
bool net_pair_unreachable(net_pair_t *pair, int rail, net_failure_t failure, int error,
                          const struct sockaddr_storage *address, socklen_t bytes);

/* ---- rails.c ---------------------------------------------------------------------------------*/

/* Closes the connection; what was sent by it may not have arrived. */
void net_rail_close(net_rail_t *rail);

/* The connection has ended. What may not have arrived is sent again by another rail, or once
 * another connection is made. If it was the last rail, and the loss is not that of a process, whose
 * host would say so, the peer is lost. */
void net_rail_lost(net_rail_t *rail, net_loss_t loss);

/* ---- health.c --------------------------------------------------------------------------------*/

/* Notes the address of the peer that the connection has or would have. COLL_ERROR_MEMORY. */
coll_status_t net_health_add(net_rail_t *rail, const struct sockaddr_storage *from,
                             socklen_t bytes);
void net_health_free(net_pairs_t *pairs);

/* Whether the addresses are equal, whatever their ports. */
bool net_health_is_same(const struct sockaddr_storage *a, const struct sockaddr_storage *b);

#endif
