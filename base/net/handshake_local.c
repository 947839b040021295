/*
 * Without libsodium there are no proofs that may be read on their way, so connections stay within
 * the kernel of one host: UNIX sockets, whose other end the kernel says belongs to the same user,
 * or to root. Either side sends the secret itself, and the purpose in place of its random number.
 *
 * This keeps out other users of the host, and who connects by mistake: another job of the user, or
 * another rendezvous. It does not keep out other programs of the same user, which could read the
 * secret in a rank's memory just as well (ptrace(2)), nor root. Nobody can listen in: what goes
 * over a UNIX socket is seen by its two ends only.
 */
#include <string.h>

#include "base/net/handshake_proof.h"
#include "base/net/peer.h"

coll_status_t base_handshake_check_hosts(void) {
  return base_fail(COLL_ERROR_UNSUPPORTED,
                   "built without libsodium: jobs of several hosts need it");
}

bool base_handshake_is_for(int fd) {
  return base_peer_is_own_user(fd);
}

/* Purposes are shorter than a random number. */
bool base_handshake_draw(base_handshake_t *h) {
  size_t bytes = strlen(h->purpose);
  memset(h->own, 0, sizeof h->own);
  memcpy(h->own, h->purpose, bytes < sizeof h->own ? bytes : sizeof h->own);
  return bytes < sizeof h->own;
}

static bool is_same_purpose(const base_handshake_t *h) {
  return memcmp(h->own, h->peer, sizeof h->own) == 0;
}

void base_handshake_prove(const base_handshake_t *h, bool of_listener,
                          uint8_t proof[BASE_SECRET_BYTES]) {
  (void)of_listener;
  memset(proof, 0, BASE_SECRET_BYTES);
  if (is_same_purpose(h)) memcpy(proof, h->secret->bytes, BASE_SECRET_BYTES);
}

/* In a time that does not depend on the bytes. */
bool base_handshake_is_proven(const base_handshake_t *h, bool of_listener,
                              const uint8_t proof[BASE_SECRET_BYTES]) {
  uint8_t expected[BASE_SECRET_BYTES], difference = 0;
  base_handshake_prove(h, of_listener, expected);
  for (size_t i = 0; i < sizeof expected; i++) difference |= expected[i] ^ proof[i];
  explicit_bzero(expected, sizeof expected);
  return difference == 0 && is_same_purpose(h);
}
