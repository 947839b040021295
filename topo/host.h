/*
 * Host identity: two processes with equal identities run under one kernel and share a network
 * namespace. They reach each other's loopback and abstract sockets, so they may share memory.
 */
#ifndef TOPO_HOST_H
#define TOPO_HOST_H

#include <stdint.h>

#include "base/status.h"

#define TOPO_HOST_BYTES 128

/* Writes the boot id and the network namespace as one line of text: equal for all processes that
 * share both, different after a reboot. Uses the host name if /proc is not mounted.
 * COLL_ERROR_SYSTEM only if there is no host name either. */
coll_status_t topo_host_identity(char text[TOPO_HOST_BYTES]);

/* A number of the kernel that this process runs under: hosts that are network namespaces or
 * containers of one machine share its cores. 0: unknown. */
uint64_t topo_host_kernel(void);

#endif
