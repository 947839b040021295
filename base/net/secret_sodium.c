/* libsodium has HMAC, and since 1.0.19 also HKDF, which is two calls of it. */
#include <sodium.h>
#include <string.h>

#include "base/net/secret.h"

_Static_assert(crypto_auth_hmacsha256_BYTES == BASE_SECRET_BYTES, "one block of HKDF");

static base_secret_t hmac(const void *key, size_t key_bytes, const void *text, size_t bytes) {
  base_secret_t made;
  crypto_auth_hmacsha256_state state;
  crypto_auth_hmacsha256_init(&state, key, key_bytes);
  crypto_auth_hmacsha256_update(&state, text, bytes);
  crypto_auth_hmacsha256_final(&state, made.bytes);
  return made;
}

base_secret_t base_secret_derive(const base_secret_t *from, const char *purpose, const void *info,
                                 size_t bytes) {
  static const uint8_t first_block = 1;
  base_secret_t made;
  if (base_secret_is_none(from)) return *from;
  base_secret_t extracted = hmac(purpose, strlen(purpose), from->bytes, sizeof from->bytes);
  crypto_auth_hmacsha256_state state;
  crypto_auth_hmacsha256_init(&state, extracted.bytes, sizeof extracted.bytes);
  if (bytes > 0) crypto_auth_hmacsha256_update(&state, info, bytes);
  crypto_auth_hmacsha256_update(&state, &first_block, 1);
  crypto_auth_hmacsha256_final(&state, made.bytes);
  base_secret_wipe(&extracted);
  return made;
}

coll_status_t base_secret_of_text(const void *text, size_t bytes, base_secret_t *secret) {
  static const char purpose[] = "libcoll secret of a text";
  *secret = hmac(purpose, sizeof purpose - 1, text, bytes);
  return COLL_OK;
}
