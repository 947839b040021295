/*
 * Connections to a rendezvous server whose handshake, hello or record is incomplete. A complete one
 * makes the caller a member, or is answered with the reason why not.
 */
#ifndef BOOTSTRAP_RENDEZVOUS_CALLERS_H
#define BOOTSTRAP_RENDEZVOUS_CALLERS_H

#include "bootstrap/rendezvous/server_state.h"

/* Whether there is room for one more, if need be in place of one that has not proved in time that
 * it is a rank. */
bool rendezvous_callers_have_room(const rendezvous_server_t *server);

/* Takes one connection from the listening socket. There is room. */
void rendezvous_callers_accept(rendezvous_server_t *server);

/* Receives from those that have sent something. polls: one per caller. */
void rendezvous_callers_serve(rendezvous_server_t *server, const struct pollfd polls[]);

/* Hangs up on all, so that they call again. */
void rendezvous_callers_drop_all(rendezvous_server_t *server);

#endif
