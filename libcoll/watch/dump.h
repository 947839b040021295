/*
 * Writes the table of ranks (flight/table.h) of this process's communicators to a file.
 */
#ifndef WATCH_DUMP_H
#define WATCH_DUMP_H

#include "comm/comm.h"

/* Implements coll_comm_dump. Callable from any thread. */
coll_status_t watch_dump(struct coll_comm *comm, const char *path);

#endif
