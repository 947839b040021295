/*
 * Which host this is: two processes whose identities are equal run under one kernel and can reach
 * each other's loopback and abstract sockets, so they may share memory.
 */
#ifndef TOPO_HOST_H
#define TOPO_HOST_H

#include "base/status.h"

#define TOPO_HOST_BYTES 128

/* The boot id and the network namespace as one line of text, the same for every process that shares
 * both, different after a reboot. Falls back to the host name where /proc is not mounted.
 * COLL_ERROR_SYSTEM only when there is no host name either. */
coll_status_t topo_host_identity(char text[TOPO_HOST_BYTES]);

#endif
