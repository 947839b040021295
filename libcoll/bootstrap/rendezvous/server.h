/*
 * The rendezvous server without its address and thread, which listen.c adds: it runs the protocol
 * of wire.h on a listening socket that the caller made.
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
