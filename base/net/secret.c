/* What needs no cryptography. secret_sodium.c has the rest, secret_local.c stands in for it. */
#include "base/net/secret.h"

#include <string.h>
#include <sys/random.h>

coll_status_t base_secret_create(base_secret_t *secret) {
  if (getrandom(secret->bytes, sizeof secret->bytes, 0) == (ssize_t)sizeof secret->bytes) {
    return COLL_OK;
  }
  return base_fail_errno(COLL_ERROR_SYSTEM, "no random number for a secret");
}

/* In a time that does not depend on the bytes. */
bool base_secret_is_none(const base_secret_t *secret) {
  uint8_t all = 0;
  for (size_t i = 0; i < sizeof secret->bytes; i++) all |= secret->bytes[i];
  return all == 0;
}

void base_secret_wipe(base_secret_t *secret) {
  explicit_bzero(secret, sizeof *secret);
}

void base_secret_to_hex(const base_secret_t *secret, char text[BASE_SECRET_HEX_BYTES + 1]) {
  static const char digits[] = "0123456789abcdef";
  for (int i = 0; i < BASE_SECRET_BYTES; i++) {
    text[2 * i] = digits[secret->bytes[i] >> 4];
    text[2 * i + 1] = digits[secret->bytes[i] & 15];
  }
  text[BASE_SECRET_HEX_BYTES] = '\0';
}

static int digit_of(char c) {
  return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

bool base_secret_from_hex(const char *text, base_secret_t *secret) {
  for (int i = 0; i < BASE_SECRET_BYTES; i++) {
    int high = digit_of(text[2 * i]), low = high < 0 ? -1 : digit_of(text[2 * i + 1]);
    if (low < 0) return false;
    secret->bytes[i] = (uint8_t)(high << 4 | low);
  }
  return true;
}
