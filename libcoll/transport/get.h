/*
 * Reading the ordinary memory of other processes on this host, by process_vm_readv
 * (process_vm_readv(2), "cross memory attach"). The kernel permits it to a process that may trace
 * the other one: same user, no Yama restriction (ptrace_scope), no seccomp filter against it, and
 * the other process is visible in this pid namespace. All of that is found out by trying.
 */
#ifndef TRANSPORT_GET_H
#define TRANSPORT_GET_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

/* Of more ranks, none reads others' memory: each would have to try it with all others. */
#define SHM_GET_RANKS_MAX 256

/* A number in this process's ordinary memory, and where it is: what peers read in order to find out
 * whether they can. Written by its owner before the communicator is complete. */
typedef struct transport_probe {
  uint64_t address; /* of the number, in the owner's process */
  uint64_t number;
} transport_probe_t;

/* Reads another process's memory. *gone: the process no longer has memory, as it exits.
 * COLL_ERROR_SYSTEM: it has no such memory, or does not permit it. */
coll_status_t transport_get(int pid, void *dst, uint64_t address, size_t bytes, bool *gone);

/* Whether this process can read the probe of process `pid`. If not, errno says why; EPROTO: another
 * process has that number. */
bool transport_get_works(int pid, const transport_probe_t *probe);

/* Permits processes that descend from `launcher` to read this process's memory where Yama forbids
 * it (ptrace_scope 1). Elsewhere does nothing. */
void transport_get_permit(int launcher);

#endif
