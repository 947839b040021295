/*
 * How the bytes of messages that do not fit a letter are copied: so that the lines are not fetched
 * from their last reader only to be written over.
 */
#ifndef TRANSPORT_SHM_PAYLOAD_H
#define TRANSPORT_SHM_PAYLOAD_H

#include <string.h>

#include "base/move.h"

#define SHM_STRING_MOVE_LEAST 1024 /* bytes from which a string move pays for its start */

/* Into shared memory that others have read. */
static inline void shm_payload_write(void *dst, const void *src, size_t bytes) {
  if (bytes >= SHM_STRING_MOVE_LEAST && base_moves_strings()) {
    base_move_string(dst, src, bytes);
  } else {
    memcpy(dst, src, bytes);
  }
}

#endif
