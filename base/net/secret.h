/*
 * Secrets: what the ranks of a communicator share, and strangers do not have. A secret is kept out
 * of arguments, the environment and logs; base_secret_t lies in memory that the owner wipes
 * (base_secret_wipe) and that core dumps may contain, if the program dumps core.
 */
#ifndef BASE_NET_SECRET_H
#define BASE_NET_SECRET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

#define BASE_SECRET_BYTES 32

/* All zero: no secret; whoever knows the protocol is let in. */
typedef struct base_secret {
  uint8_t bytes[BASE_SECRET_BYTES];
} base_secret_t;

/* A random one. COLL_ERROR_SYSTEM. */
coll_status_t base_secret_create(base_secret_t *secret);

bool base_secret_is_none(const base_secret_t *secret);
void base_secret_wipe(base_secret_t *secret);

/* A secret for one purpose, from which `from` cannot be found: HKDF-SHA256 (RFC 5869) with the
 * purpose as salt and `bytes` bytes of info. That of no secret is none. Without libsodium it is
 * `from` itself. */
base_secret_t base_secret_derive(const base_secret_t *from, const char *purpose, const void *info,
                                 size_t bytes);

/* A secret from a text of any length, such as the content of a file. COLL_ERROR_UNSUPPORTED: built
 * without libsodium. */
coll_status_t base_secret_of_text(const void *text, size_t bytes, base_secret_t *secret);

/* As hexadecimal digits, in lower case. */
#define BASE_SECRET_HEX_BYTES (2 * BASE_SECRET_BYTES)
void base_secret_to_hex(const base_secret_t *secret, char text[BASE_SECRET_HEX_BYTES + 1]);

/* Reads so many digits; what follows them is the caller's. False: the text is another one, or ends
 * before. */
bool base_secret_from_hex(const char *text, base_secret_t *secret);

#endif
