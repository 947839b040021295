/*
 * Connections to a server that may have several addresses, of which some may lead nowhere, or to
 * another host: of a network that only the server's host is on, or of a bridge that every host has.
 */
#ifndef BOOTSTRAP_RENDEZVOUS_DIAL_H
#define BOOTSTRAP_RENDEZVOUS_DIAL_H

#include <sys/socket.h>

#include "bootstrap/rendezvous/rendezvous.h"

#define DIAL_TARGETS 8 /* more are left out */

typedef struct dial_targets {
  int count;
  socklen_t lengths[DIAL_TARGETS];
  struct sockaddr_storage at[DIAL_TARGETS];
} dial_targets_t;

/* Resolves the names in address->host. COLL_ERROR_SYSTEM: none of them is known, which may change.
 * COLL_ERROR_INVALID: likewise, and one cannot be the name of a host. */
coll_status_t dial_resolve(const rendezvous_address_t *address, dial_targets_t *targets);

/* The same for a list of names and TCP, also in a build without libsodium. */
coll_status_t dial_resolve_tcp(const char *names, uint16_t port, dial_targets_t *targets);

/* Tries each target once, beginning with `first`; several of them at the same time, if one does not
 * answer soon. Returns a connected socket, or -1 with errno: at the deadline, or earlier if all
 * have failed. */
int dial_once(const dial_targets_t *targets, int first, uint64_t deadline_ns);

/* Whether a connection that has failed so may succeed later. */
bool dial_may_heal(int error);

#endif
