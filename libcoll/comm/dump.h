/* The table of ranks (flight/table.h) of the communicators of this process, as a file. */
#ifndef COMM_DUMP_H
#define COMM_DUMP_H

#include "comm/comm.h"

/* As coll_comm_dump. By any thread. */
coll_status_t comm_dump(struct coll_comm *comm, const char *path);

#endif
