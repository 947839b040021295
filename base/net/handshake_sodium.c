/* Proofs by HMAC-SHA256, with libsodium. They keep strangers out on any connection. */
#include <sodium.h>
#include <string.h>
#include <sys/random.h>

#include "base/net/handshake_proof.h"

coll_status_t base_handshake_check_hosts(void) {
  return COLL_OK;
}

bool base_handshake_is_for(int fd) {
  (void)fd;
  return true;
}

bool base_handshake_draw(base_handshake_t *h) {
  return getrandom(h->own, sizeof h->own, 0) == (ssize_t)sizeof h->own;
}

void base_handshake_prove(const base_handshake_t *h, bool of_listener,
                          uint8_t proof[BASE_SECRET_BYTES]) {
  const char *side = of_listener ? "listener" : "caller--";
  const uint8_t *first = h->is_listener ? h->peer : h->own;
  const uint8_t *second = h->is_listener ? h->own : h->peer;
  crypto_auth_hmacsha256_state state;
  crypto_auth_hmacsha256_init(&state, h->secret->bytes, sizeof h->secret->bytes);
  crypto_auth_hmacsha256_update(&state, (const uint8_t *)BASE_HANDSHAKE_MAGIC,
                                BASE_HANDSHAKE_MAGIC_BYTES);
  crypto_auth_hmacsha256_update(&state, (const uint8_t *)side, 8);
  crypto_auth_hmacsha256_update(&state, first, BASE_HANDSHAKE_NONCE_BYTES);
  crypto_auth_hmacsha256_update(&state, second, BASE_HANDSHAKE_NONCE_BYTES);
  crypto_auth_hmacsha256_update(&state, (const uint8_t *)h->purpose, strlen(h->purpose));
  crypto_auth_hmacsha256_final(&state, proof);
}

bool base_handshake_is_proven(const base_handshake_t *h, bool of_listener,
                              const uint8_t proof[BASE_SECRET_BYTES]) {
  uint8_t expected[BASE_SECRET_BYTES];
  base_handshake_prove(h, of_listener, expected);
  return sodium_memcmp(expected, proof, sizeof expected) == 0;
}
