/*
 * How the bytes of messages are copied: those that fit a letter for less than a call costs, longer
 * ones so that the lines are not fetched from their last reader only to be written over.
 */
#ifndef TRANSPORT_SHM_PAYLOAD_H
#define TRANSPORT_SHM_PAYLOAD_H

#include <string.h>

#include "base/move.h"

#define SHM_STRING_MOVE_LEAST 1024 /* bytes from which a string move pays for its start */

/* At most 48. */
static inline void shm_payload_copy_inline(void *dst, const void *src, size_t bytes) {
  char *to = dst;
  const char *from = src;
  if (bytes >= 16) { /* pieces that may overlap, of which the last ends with the bytes */
    if (bytes > 32) memcpy(to + 16, from + 16, 16);
    memcpy(to, from, 16);
    memcpy(to + bytes - 16, from + bytes - 16, 16);
  } else if (bytes >= 8) {
    memcpy(to, from, 8);
    memcpy(to + bytes - 8, from + bytes - 8, 8);
  } else if (bytes >= 4) {
    memcpy(to, from, 4);
    memcpy(to + bytes - 4, from + bytes - 4, 4);
  } else if (bytes > 0) {
    to[0] = from[0];
    to[bytes / 2] = from[bytes / 2];
    to[bytes - 1] = from[bytes - 1];
  }
}

/* Into shared memory that others have read. */
static inline void shm_payload_write(void *dst, const void *src, size_t bytes) {
  if (bytes >= SHM_STRING_MOVE_LEAST && base_moves_strings()) {
    base_move_string(dst, src, bytes);
  } else {
    memcpy(dst, src, bytes);
  }
}

#endif
