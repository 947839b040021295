/*
 * Transport over TCP: between ranks that share no memory. One connection per pair of ranks carries
 * all their channels. A rank that waits receives from the peer it waits for; a rank that sleeps
 * receives from all.
 */
#ifndef TRANSPORT_TCP_TCP_H
#define TRANSPORT_TCP_TCP_H

#include "transport/ops.h"
#include "transport/tcp/connect.h"
#include "transport/tcp/netmod.h"

/* Connects with every other rank, and creates this rank's end. The listener is closed, and the
 * netmod taken over, also on failure. Statuses: those of tcp_connect_all. */
coll_status_t transport_tcp_create(tcp_listener_t *listener, const tcp_group_t *group,
                                   transport_t **t);

/* Creates all ends in this process, connected over the loopback interface: ends[i] is rank i's.
 * netmods[i], if not NULL, is that of rank i, taken over also on failure. COLL_ERROR_SYSTEM,
 * COLL_ERROR_MEMORY. */
coll_status_t transport_tcp_create_local(int size, tcp_netmod_t *const netmods[],
                                         transport_t *ends[]);

/* The length of messages, and scratch memory per rank. any_netmod: some rank has one. */
void transport_tcp_room(bool any_netmod, size_t *slot_bytes, size_t *scratch_bytes);

/* ---- for transports that consist of this and another -----------------------------------------*/

/* Readable when something has arrived, for poll and epoll. The transport's. */
int transport_tcp_descriptor(transport_t *t);

/* Whether something has arrived since arm that is no longer in a socket. */
bool transport_tcp_has_arrived(transport_t *t);

/* The recorder of this rank that publish sends, in place of its own. It outlives the transport. */
void transport_tcp_set_recorder(transport_t *t, const flight_recorder_t *recorder);

#endif
