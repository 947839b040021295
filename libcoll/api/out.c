/* Copies no more than the program's struct has room for. */
#include "api/out.h"

#include <string.h>

coll_status_t api_out_check(const void *out, const char *function, const char *init) {
  size_t own;
  memcpy(&own, out, sizeof own);
  if (own > sizeof own && own <= 65536) return COLL_OK;
  return base_fail(COLL_ERROR_INVALID, "%s: struct_bytes is %zu: start from %s", function, own,
                   init);
}

void api_out_fill(void *out, const void *made, size_t bytes) {
  size_t own, first = sizeof own;
  memcpy(&own, out, sizeof own);
  if (own < bytes) bytes = own;
  memcpy((char *)out + first, (const char *)made + first, bytes - first);
}
