/*
 * The socket of a rendezvous server's address: TCP (endpoint_net.c), or in a build without
 * libsodium a UNIX socket (endpoint_local.c). dialer_resolve (dialer.h) is the callers' side of it.
 */
#ifndef BOOTSTRAP_RENDEZVOUS_ENDPOINT_H
#define BOOTSTRAP_RENDEZVOUS_ENDPOINT_H

#include "bootstrap/rendezvous/rendezvous.h"
#include "bootstrap/rendezvous/server.h"

/* How long a port that is in use is retried: longer than a failed server lingers. */
#define RENDEZVOUS_PORT_NS (3 * (uint64_t)RENDEZVOUS_LINGER_NS)

/* *listener: a listening socket, which the caller closes. *port: address->port, or a free one if
 * that is 0. Sets address->is_here. COLL_ERROR_SYSTEM, COLL_ERROR_INVALID as
 * rendezvous_server_start;
 * COLL_ERROR_UNSUPPORTED: other hosts could reach it, and the library is built without libsodium.
 */
coll_status_t rendezvous_listen(rendezvous_address_t *address, int *listener, uint16_t *port);

#endif
