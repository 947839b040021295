/*
 * The first bytes of every connection: both sides prove that they know the secret, before either
 * looks at anything else that the other sends. The one that connected sends a random number; the
 * listener answers with one of its own and a proof over both; the first proves the same. A proof
 * is HMAC-SHA256 (RFC 2104) of side, purpose and both numbers, so one that was recorded is of no
 * use. What follows on the connection is neither encrypted nor protected against someone who can
 * change packets on their way.
 *
 * Built without libsodium, the library makes connections within a host only, over UNIX sockets
 * (handshake_local.c).
 */
#ifndef BASE_NET_HANDSHAKE_H
#define BASE_NET_HANDSHAKE_H

#include "base/net/secret.h"

#define BASE_HANDSHAKE_NONCE_BYTES 32

/* Whether ranks of several hosts can be connected. COLL_ERROR_UNSUPPORTED: built without libsodium.
 * Whatever listens at an address that other hosts reach, asks this before. */
coll_status_t base_handshake_check_hosts(void);

/* Whether a process of the job may be at the other end of a new connection. Built without
 * libsodium, only if the connection is a UNIX socket and the process one of the same user, or of
 * root. */
bool base_handshake_is_for(int fd);

typedef enum base_handshake_state {
  BASE_HANDSHAKE_UNDER_WAY, /* more is to arrive */
  BASE_HANDSHAKE_DONE,      /* the peer knows the secret */
  BASE_HANDSHAKE_CLOSED,    /* the connection was closed or is broken */
  BASE_HANDSHAKE_REFUSED,   /* the peer does not know the secret, or sends something else */
  BASE_HANDSHAKE_VERSION,   /* the peer has a version of the library with another protocol */
  BASE_HANDSHAKE_RETRY      /* the listener has no time for it now */
} base_handshake_state_t;

typedef struct base_handshake {
  bool is_listener;
  bool has_answered; /* as listener: has sent its proof */
  bool is_other;     /* as caller, refused: the listener has this protocol, but another secret */
  bool is_proven;    /* as caller: the listener knows the secret, even if it has closed since */
  const base_secret_t *secret;
  const char *purpose;
  uint8_t own[BASE_HANDSHAKE_NONCE_BYTES], peer[BASE_HANDSHAKE_NONCE_BYTES];
  size_t received; /* bytes of `input` */
  uint8_t input[8 + BASE_HANDSHAKE_NONCE_BYTES + BASE_SECRET_BYTES];
} base_handshake_t;

/* secret and purpose are not copied. The same purpose on both sides, and a different one for
 * connections that must not be taken for each other; less than BASE_HANDSHAKE_NONCE_BYTES bytes. As
 * caller, sends the first bytes: the connection is open and nothing was sent on it. */
base_handshake_state_t base_handshake_begin_caller(base_handshake_t *handshake, int fd,
                                                   const base_secret_t *secret,
                                                   const char *purpose);
void base_handshake_begin_listener(base_handshake_t *handshake, const base_secret_t *secret,
                                   const char *purpose);

/* Takes in what has arrived, without blocking, and nothing behind the handshake. */
base_handshake_state_t base_handshake_continue(base_handshake_t *handshake, int fd);

/* The same until it is done or has failed; CLOSED at the deadline. */
base_handshake_state_t base_handshake_finish(base_handshake_t *handshake, int fd,
                                             uint64_t deadline_ns);

/* Tells a caller, before the answer, to call again. */
void base_handshake_decline(const base_handshake_t *handshake, int fd);

#endif
