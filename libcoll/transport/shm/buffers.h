/*
 * Users' buffers across processes: the segments that this rank has exported to its peers, and those
 * of peers that it has mapped. An export sends the segment's file descriptor to every peer before
 * the first message that mentions it, so a peer that wants to map it finds it in its socket.
 */
#ifndef TRANSPORT_SHM_BUFFERS_H
#define TRANSPORT_SHM_BUFFERS_H

#include "transport/ops.h"
#include "transport/shm/mesh.h"
#include "transport/shm/passes.h"
#include "transport/shm/segment.h"

typedef struct shm_import {
  int peer;
  uint64_t id;
  shm_segment_t *segment;
} shm_import_t;

/* An exported segment. */
typedef struct shm_export {
  uintptr_t base;
  size_t bytes;
  uint64_t id;
} shm_export_t;

#define SHM_EXPORT_RANKS_MAX 256 /* of more ranks, none exports: it would send to all others */
#define SHM_RECENT 4

typedef struct shm_buffers {
  /* Cache of the latest exports, so that a repeated call does not lock the process-wide table.
   * Valid while shm_memory_freed() equals recent_freed_count. Entry number n of `recent_count` is
   * at [n % SHM_RECENT]. */
  shm_export_t recent[SHM_RECENT];
  size_t recent_count;
  uint64_t recent_freed_count;
  uint64_t *exports; /* ids of the segments exported to every peer */
  size_t export_count, export_capacity;
  shm_import_t *imports;
  size_t import_count, import_capacity;
  shm_passes_t passes; /* other descriptors that were received meanwhile */
} shm_buffers_t;

/* Receives all notes that peers have sent so far. */
coll_status_t shm_buffers_read_notes(shm_buffers_t *buffers, shm_mesh_t *mesh);

/* Returns the address of [ptr, ptr+bytes), and exports its segment to all peers if that was not
 * done. A zero address if it is no memory of coll_mem_alloc, there are too many ranks, or a peer
 * has too many notes to receive. */
coll_status_t shm_buffers_export(shm_buffers_t *buffers, shm_mesh_t *mesh, const void *ptr,
                                 size_t bytes, transport_address_t *address);

/* Returns a peer's buffer as mapped in this process; NULL if its export was not received. */
coll_status_t shm_buffers_import(shm_buffers_t *buffers, shm_mesh_t *mesh, int peer,
                                 const transport_address_t *address, void **ptr);

void shm_buffers_close(shm_buffers_t *buffers);

#endif
