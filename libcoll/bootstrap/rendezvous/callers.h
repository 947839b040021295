/*
 * Connections to a rendezvous server of those who know its secret, whose hello or record is
 * incomplete. A complete one makes the caller a member, or is answered with the reason why not.
 */
#ifndef BOOTSTRAP_RENDEZVOUS_CALLERS_H
#define BOOTSTRAP_RENDEZVOUS_CALLERS_H

#include "bootstrap/rendezvous/server_state.h"

/* Sets up server->strangers, of whom it gets callers; its secret and purpose are set. Takes over
 * the listening socket on success. COLL_ERROR_MEMORY. */
coll_status_t rendezvous_callers_listen(rendezvous_server_t *server, int listener);

/* Receives from those that have sent something. polls: one per caller. */
void rendezvous_callers_serve(rendezvous_server_t *server, const struct pollfd polls[]);

/* Closes the listening socket, and hangs up on all, so that they call again. */
void rendezvous_callers_drop_all(rendezvous_server_t *server);

#endif
