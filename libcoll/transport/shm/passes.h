/*
 * File descriptors that a rank has received from its peers and that were not asked for yet. Between
 * processes they are notes (mesh.h), which arrive in the order in which they were sent but are
 * asked for by peer and tag.
 */
#ifndef TRANSPORT_SHM_PASSES_H
#define TRANSPORT_SHM_PASSES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

typedef struct shm_pass {
  int peer;
  int descriptor; /* -1: it was sent, but this process could open no more files */
  uint64_t tag;
} shm_pass_t;

typedef struct shm_passes {
  shm_pass_t *kept; /* oldest first */
  size_t count, capacity;
} shm_passes_t;

/* Takes over the descriptor, on failure too. COLL_ERROR_MEMORY; COLL_ERROR_SYSTEM: the peer has
 * passed many more than TRANSPORT_PASSES that nobody takes. */
coll_status_t shm_passes_keep(shm_passes_t *passes, int peer, uint64_t tag, int descriptor);

/* Removes the oldest one of the peer with the tag, whose descriptor is then the caller's. */
bool shm_passes_find(shm_passes_t *passes, int peer, uint64_t tag, shm_pass_t *found);

void shm_passes_close(shm_passes_t *passes);

#endif
