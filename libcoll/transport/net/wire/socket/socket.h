/*
 * The wire of sockets. Its owner makes the connections, one for each link, and makes another when
 * one is lost. It may lose frames with a connection: `queue` sends those that the owner keeps.
 *
 * `descriptor` is an epoll set. data.u32 of an event is the link for which flush and progress have
 * something to do. The owner may add descriptors of its own, with numbers that no link has.
 */
#ifndef TRANSPORT_NET_WIRE_SOCKET_SOCKET_H
#define TRANSPORT_NET_WIRE_SOCKET_SOCKET_H

#include "transport/net/wire/ops.h"

/* A wire of so many links. COLL_ERROR_MEMORY, COLL_ERROR_SYSTEM. */
coll_status_t socket_wire_open(int links, wire_t **wire);

/* Gives a connected socket to a link that has none. False, with errno set: it cannot be used, and
 * stays the caller's. */
bool socket_wire_connect(wire_t *wire, int link, int fd);

/* The socket of a link, for what the kernel knows of it; -1: none. */
int socket_wire_fd(const wire_t *wire, int link);

/* Whether the socket accepts nothing any more; what the peer sent can still arrive. */
bool socket_wire_is_mute(const wire_t *wire, int link);

/* Bytes that were sent and did not reach the peer's host. */
size_t socket_wire_load(const wire_t *wire, int link);

#endif
