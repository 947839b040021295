/* Where a job's secret comes from. */
#ifndef BOOTSTRAP_RENDEZVOUS_SECRET_SOURCE_H
#define BOOTSTRAP_RENDEZVOUS_SECRET_SOURCE_H

#include <stdbool.h>

#include "base/knob.h"
#include "bootstrap/rendezvous/rendezvous.h"

/* The knobs of it; NULL past the last. */
const base_knob_t *rendezvous_knob(int index);

/* Whether COLL_AUTH_FILE names a file. COLL_ERROR_INVALID: it is set but empty. */
coll_status_t rendezvous_secret_has_file(bool *has_file);

/* Whether strangers who reach the server are kept out, or the user lets them in (COLL_INSECURE), so
 * that it may listen where others reach it. */
coll_status_t rendezvous_is_guarded(const rendezvous_address_t *address, bool *is_guarded);

/* *stays: all addresses of a host are loopback ones. Returns an error of getaddrinfo. */
int rendezvous_stays_on_host(const char *host, bool *stays);

#endif
