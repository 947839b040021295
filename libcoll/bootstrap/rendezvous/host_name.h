/*
 * What a name of a host is, without asking anyone: an address, a name of every host's own loopback
 * interface, or a name that something else may know, now or later.
 */
#ifndef BOOTSTRAP_RENDEZVOUS_HOST_NAME_H
#define BOOTSTRAP_RENDEZVOUS_HOST_NAME_H

#include <stdbool.h>

#include "base/status.h"

/* COLL_ERROR_INVALID: it is neither an address nor a name that a host may have (RFC 1123; '_' is
 * allowed as resolvers do). */
coll_status_t rendezvous_host_check(const char *host);

/* Whether it is an IPv4 or IPv6 address. */
bool rendezvous_host_is_address(const char *host);

/* Whether the name is, on every host, that of its loopback interface (RFC 6761). */
bool rendezvous_host_is_localhost(const char *host);

#endif
