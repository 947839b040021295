/* Without libsodium a secret never leaves its host (handshake_local.c), so one serves all purposes
 * of a job. */
#include "base/net/secret.h"

base_secret_t base_secret_derive(const base_secret_t *from, const char *purpose, const void *info,
                                 size_t bytes) {
  (void)purpose;
  (void)info;
  (void)bytes;
  return *from;
}

coll_status_t base_secret_of_text(const void *text, size_t bytes, base_secret_t *secret) {
  (void)text;
  (void)bytes;
  (void)secret;
  return base_fail(
      COLL_ERROR_UNSUPPORTED,
      "built without libsodium, which makes a secret of a text: ranks of one host need "
      "none");
}
