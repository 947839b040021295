/*
 * Connections to what may not be there yet: its name is not known, no way leads to it, nobody
 * listens, or who listens hangs up. Each is tried again until it answers. Only what waiting cannot
 * change fails at once.
 */
#ifndef BOOTSTRAP_RENDEZVOUS_DIALER_H
#define BOOTSTRAP_RENDEZVOUS_DIALER_H

#include "base/net/address.h"
#include "base/wait_notice.h"
#include "bootstrap/rendezvous/rendezvous.h"

#define DIALER_TEXT_BYTES 320

typedef struct dialer {
  const rendezvous_address_t *address; /* NULL: */
  const char *host;                    /* of TCP */
  uint16_t port;
  base_addresses_t targets; /* count 0: the name is not known */
  uint64_t resolve_ns;      /* when names are asked for next: what they mean may change */
  base_wait_notice_t notice;
  char who[DIALER_TEXT_BYTES]; /* "rank 1 waits for rank 0 at node1 port 29500" */
  char why[DIALER_TEXT_BYTES]; /* what was tried last failed for */
} dialer_t;

/* For the rendezvous server at address, or where that is NULL, TCP at host and port. Neither
 * address nor host is copied; who is. */
dialer_t dialer_begin(const rendezvous_address_t *address, const char *host, uint16_t port,
                      const char *who);

/* Tries once, beginning with the target `turn`, for some seconds or until the deadline. Sets *fd to
 * a connected socket, or to -1 with errno and dialer->why. COLL_ERROR_INVALID: there is nothing to
 * wait for. */
coll_status_t dialer_try(dialer_t *dialer, int turn, uint64_t deadline_ns, int *fd);

/* Tries again until the deadline. COLL_ERROR_TIMEOUT, COLL_ERROR_INVALID: with dialer->why, and no
 * message. */
coll_status_t dialer_connect(dialer_t *dialer, uint64_t deadline_ns, int *fd);

/* Resolves the names in address->host; more than BASE_ADDRESSES_MAX addresses are left out.
 * COLL_ERROR_SYSTEM: none of them is known, which may change. COLL_ERROR_INVALID: likewise, and one
 * cannot be the name of a host. */
coll_status_t dialer_resolve(const rendezvous_address_t *address, base_addresses_t *targets);

/* The same for a list of names and TCP, also in a build without libsodium. */
coll_status_t dialer_resolve_tcp(const char *names, uint16_t port, base_addresses_t *targets);

/* Sets dialer->why, and prints once, if the wait lasts, what is waited for. */
void dialer_failed(dialer_t *dialer, const char *why);

#endif
