/*
 * Transport between the ranks of one machine: processes or threads that share one segment of memory
 * (layout.h).
 */
#ifndef TRANSPORT_SHM_SHM_H
#define TRANSPORT_SHM_SHM_H

#include "transport/ops.h"
#include "transport/shm/mesh.h"

/* Whose memory it is: of all ranks of a communicator, or of those of one of its hosts. Messages
 * have the same length inside hosts and between them, where each costs much. */
typedef enum shm_scope { SHM_SCOPE_ALL, SHM_SCOPE_HOST } shm_scope_t;

/* Creates one rank's end. one_process: the ranks are threads of one process. The mesh has joined;
 * its ownership passes to the transport, on failure too. Rank 0 creates the segment and sends it to
 * all; the others wait for it until the deadline (base/clock.h) or a failure of mesh->watch. The
 * caller owns *t: ops->destroy. Statuses: those of mesh.h and segment.h. */
coll_status_t transport_shm_create(shm_mesh_t *mesh, shm_scope_t scope, bool one_process,
                                   uint64_t deadline_ns, transport_t **t);

/* Creates all ends at once, for ranks that are threads of this process, and all of a communicator:
 * ends[i] is rank i's, owned by the caller. */
coll_status_t transport_shm_create_local(int size, transport_t *ends[]);

/* The length of messages, and scratch memory per rank, of a transport of `size` ranks. */
void transport_shm_room(int size, shm_scope_t scope, size_t *slot_bytes, size_t *scratch_bytes);

/* Ends a sleep of this rank. Any thread may call it. */
void transport_shm_wake(transport_t *t);

#endif
