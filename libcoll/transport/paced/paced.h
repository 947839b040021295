/*
 * A transport around another one that makes messages and signals as slow as the links of a fabric:
 * a network that is not there, for measuring how collectives behave on it. What a link carries, it
 * carries one after another, for all ranks whose paths share it, at its bandwidth; what arrives
 * does so after the latencies of its path.
 *
 * Memory that ranks map is not paced: it is within a host. Ranks that share a node of the fabric
 * have no links between them and are not paced either. Communicators do not share links.
 */
#ifndef TRANSPORT_PACED_PACED_H
#define TRANSPORT_PACED_PACED_H

#include "topo/fabric.h"
#include "transport/ops.h"

/* The end of each rank's scratch memory that the transport uses, in bytes. */
size_t transport_paced_bytes(int size, const topo_fabric_t *fabric);

/* *paced: takes over `inner`, which must have scratch memory of more than transport_paced_bytes,
 * zeroed; not on failure. Every rank of the communicator creates one, with equal fabrics. The
 * fabric must live until all sending has ended. COLL_ERROR_MEMORY, or COLL_ERROR_INVALID where
 * paths are missing. The caller owns *paced: ops->destroy. */
coll_status_t transport_paced_create(transport_t *inner, topo_fabric_t *fabric,
                                     transport_t **paced);

#endif
