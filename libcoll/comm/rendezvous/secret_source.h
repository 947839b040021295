/* Where a job's secret comes from. */
#ifndef COMM_RENDEZVOUS_SECRET_SOURCE_H
#define COMM_RENDEZVOUS_SECRET_SOURCE_H

#include <stdbool.h>

#include "base/knob.h"

/* The knobs of it; NULL past the last. */
const base_knob_t *rendezvous_knob(int index);

/* Whether COLL_AUTH_FILE names a file. COLL_ERROR_INVALID: it is set but empty. */
coll_status_t rendezvous_secret_has_file(bool *has_file);

/* *stays: all addresses of a host are loopback ones. Returns an error of getaddrinfo. */
int rendezvous_stays_on_host(const char *host, bool *stays);

#endif
