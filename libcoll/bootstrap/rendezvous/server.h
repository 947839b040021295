/*
 * The rendezvous server, which runs the protocol of wire.h on a listening socket, and that socket;
 * listen.c adds the thread.
 */
#ifndef BOOTSTRAP_RENDEZVOUS_SERVER_H
#define BOOTSTRAP_RENDEZVOUS_SERVER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "bootstrap/rendezvous/rendezvous.h"

typedef struct rendezvous_server rendezvous_server_t;

/* How long a server whose rendezvous has failed keeps listening, on a port that another rendezvous
 * may need, to tell late ranks why. */
#define RENDEZVOUS_LINGER_NS 300000000u

/* How long a port that is in use is retried: longer than a failed server lingers. */
#define RENDEZVOUS_PORT_NS (3 * (uint64_t)RENDEZVOUS_LINGER_NS)

/* The socket of a server's address: TCP (endpoint_net.c), or in a build without libsodium a UNIX
 * socket (endpoint_local.c); dialer_resolve (dialer.h) is the callers' side of it. *listener: a
 * socket that listens and does not block, which the caller closes. *port: address->port, or a free
 * one if that is 0. Sets address->is_here. COLL_ERROR_SYSTEM, COLL_ERROR_INVALID as
 * rendezvous_server_start; COLL_ERROR_UNSUPPORTED: other hosts could reach it, and the library is
 * built without libsodium. */
coll_status_t rendezvous_listen(rendezvous_address_t *address, int *listener, uint16_t *port);

/* On success takes over the listening socket, which does not block. address: its job and secret.
 * own_port: no other rendezvous will use the port, so after a failure the server may listen until
 * the ranks' timeout. Freed by rendezvous_server_destroy. COLL_ERROR_MEMORY, COLL_ERROR_SYSTEM. */
coll_status_t rendezvous_server_create(int listener, const rendezvous_address_t *address,
                                       bool own_port, rendezvous_server_t **server);

/* Runs one rendezvous. Returns when every rank that can still receive has got the verdict, or if no
 * rank joins within an hour. */
void rendezvous_server_run(rendezvous_server_t *server);

void rendezvous_server_destroy(rendezvous_server_t *server);

#endif
