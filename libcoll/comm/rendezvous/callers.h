/*
 * Connections to a rendezvous server whose hello and record are incomplete. A complete one makes
 * the caller a member, or is answered with the reason why not.
 */
#ifndef COMM_RENDEZVOUS_CALLERS_H
#define COMM_RENDEZVOUS_CALLERS_H

#include "comm/rendezvous/server_state.h"

/* Takes one connection from the listening socket. */
void rendezvous_callers_accept(rendezvous_server_t *server);

/* Receives from those that have sent something. polls: one per caller. */
void rendezvous_callers_serve(rendezvous_server_t *server, const struct pollfd polls[]);

/* Hangs up on the oldest `count`, so that they call again. */
void rendezvous_callers_drop(rendezvous_server_t *server, int count);

#endif
