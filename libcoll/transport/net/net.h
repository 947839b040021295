/*
 * Transport over TCP: between ranks that share no memory. One connection per pair of ranks carries
 * all their channels. A rank that waits receives from the peer it waits for; a rank that sleeps
 * receives from all.
 */
#ifndef TRANSPORT_NET_NET_H
#define TRANSPORT_NET_NET_H

#include "transport/net/connect/names.h"
#include "transport/net/wire/ops.h"
#include "transport/ops.h"

/* Connects with every other rank, and creates this rank's end. The listener is closed, and the
 * wire taken over, also on failure. COLL_ERROR_TIMEOUT names a
 * rank to which there is no connection. COLL_ERROR_SYSTEM, COLL_ERROR_MEMORY; else what the watch
 * says. */
coll_status_t transport_net_create(net_listener_t *listener, const net_group_t *group,
                                   transport_t **t);

/* Creates all ends in this process, connected over the loopback interface: ends[i] is rank i's.
 * wires[i], if not NULL, is that of rank i, taken over also on failure. COLL_ERROR_SYSTEM,
 * COLL_ERROR_MEMORY. */
coll_status_t transport_net_create_local(int size, wire_t *const wires[], transport_t *ends[]);

/* The length of messages, and scratch memory per rank. any_wire: some rank has one. */
void transport_net_room(bool any_wire, size_t *slot_bytes, size_t *scratch_bytes);

/* ---- for transports that consist of this and another -----------------------------------------*/

/* Readable when something has arrived, for poll and epoll. The transport's. */
int transport_net_descriptor(transport_t *t);

/* Whether something has arrived since arm that is no longer in a socket. */
bool transport_net_has_arrived(transport_t *t);

/* The recorder of this rank that publish sends, in place of its own. It outlives the transport. */
void transport_net_set_recorder(transport_t *t, const flight_recorder_t *recorder);

#endif
