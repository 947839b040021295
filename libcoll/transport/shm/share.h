/*
 * Users' buffers across processes: what this rank has offered to its peers and what it has mapped
 * of theirs. An offer sends the segment's descriptor to every peer ahead of the first message that
 * mentions it, so a peer that needs to map finds it already in its socket.
 */
#ifndef TRANSPORT_SHM_SHARE_H
#define TRANSPORT_SHM_SHARE_H

#include "transport/ops.h"
#include "transport/shm/mesh.h"
#include "transport/shm/segment.h"

typedef struct shm_import {
  int peer;
  uint64_t id;
  shm_segment_t *segment;
} shm_import_t;

/* A segment that was offered. */
typedef struct shm_stretch {
  uintptr_t base;
  size_t bytes;
  uint64_t id;
} shm_stretch_t;

#define SHM_RECENT 4

typedef struct shm_share {
  /* Those that were asked for last, to be found without looking into the table of memory, which is
   * every thread's; good while as many allocations are freed as when they were found. The n-th of
   * `recent_kept` is at [n % SHM_RECENT]. */
  shm_stretch_t recent[SHM_RECENT];
  size_t recent_kept;
  uint64_t recent_freed;
  uint64_t *exports; /* ids offered to every peer */
  size_t export_count, export_capacity;
  shm_import_t *imports;
  size_t import_count, import_capacity;
} shm_share_t;

/* The address of [ptr, ptr+bytes), offered to all peers if it was not; zero where it cannot be. */
coll_status_t shm_share_export(shm_share_t *share, shm_mesh_t *mesh, const void *ptr, size_t bytes,
                               transport_address_t *address);

/* A peer's buffer in this process; NULL where its offer never came. */
coll_status_t shm_share_import(shm_share_t *share, shm_mesh_t *mesh, int peer,
                               const transport_address_t *address, void **ptr);

void shm_share_close(shm_share_t *share);

#endif
