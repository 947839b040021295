/*
 * The transport between ranks on one machine: processes or threads that share one segment of
 * memory (layout.h).
 */
#ifndef TRANSPORT_SHM_SHM_H
#define TRANSPORT_SHM_SHM_H

#include "transport/ops.h"
#include "transport/shm/mesh.h"

/* One rank's end. one_process: the ranks are threads of one process. The mesh is connected; its
 * ownership passes to the transport, on failure too. Rank 0 makes the segment and hands it round.
 * Owned by the caller: ops->destroy. */
coll_status_t transport_shm_create(shm_mesh_t *mesh, bool one_process, uint64_t deadline_ns,
                                   transport_t **t);

/* All ends at once, for ranks that are threads of this process: ends[i] is rank i's. */
coll_status_t transport_shm_create_local(int size, transport_t *ends[]);

#endif
