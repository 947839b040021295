/*
 * Makes the connections of one end, in a thread of its own, so that they are made also while the
 * rank and its peers compute. Either rank of a pair may begin. The lower one of the two decides
 * which connection counts: as caller by confirming it, and else by replying. If a connection is
 * lost, the next one on that rail is made in the same way; both ranks count them, so that neither
 * takes an old attempt for a new one.
 */
#ifndef TRANSPORT_NET_CONNECT_CONNECTOR_H
#define TRANSPORT_NET_CONNECT_CONNECTOR_H

#include "transport/net/connect/connect.h"

/* Takes over the listener, also on failure. COLL_ERROR_MEMORY, COLL_ERROR_SYSTEM. */
coll_status_t net_connector_create(net_pairs_t *pairs, net_listener_t *listener,
                                   const net_group_t *group, net_connector_t **connector);

/* Starts the thread, once the pairs know their connector. Connections are passed to
 * net_pair_connected, peers to which there can be none to net_pair_unreachable (state.h), with the
 * lock held; the latter only after net_connector_may_give_up. COLL_ERROR_SYSTEM. */
coll_status_t net_connector_start(net_connector_t *connector);

/* Makes a connection with a peer on a rail, on which there have been `made` so far. Once it is
 * made, another one may be asked for. The lock is held. COLL_ERROR_MEMORY. */
coll_status_t net_connector_ask(net_connector_t *connector, int peer, int rail, uint16_t made);

/* From now on peers that cannot be connected to are given up. The lock is held. */
void net_connector_may_give_up(net_connector_t *connector);

/* What keeps this host from connecting: errno; 0: nothing. The lock is held. */
int net_connector_error(const net_connector_t *connector);

/* Readable, for poll, once a connection has been made. */
int net_connector_descriptor(const net_connector_t *connector);

/* Waits for the thread, which takes the lock, to end. NULL is allowed. */
void net_connector_destroy(net_connector_t *connector);

#endif
