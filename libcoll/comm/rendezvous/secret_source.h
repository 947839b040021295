/* Where a job's secret comes from. */
#ifndef COMM_RENDEZVOUS_SECRET_SOURCE_H
#define COMM_RENDEZVOUS_SECRET_SOURCE_H

#include <stdbool.h>

#include "base/knob.h"

/* The knobs of it; NULL past the last. */
const base_knob_t *rendezvous_knob(int index);

/* *stays: all addresses of a host are loopback ones. Returns an error of getaddrinfo. */
int rendezvous_stays_on_host(const char *host, bool *stays);

#endif
