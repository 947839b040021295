/*
 * How a rank accesses its peers' ordinary memory: found out when a communicator is complete.
 */
#ifndef LIFETIME_ACCESS_H
#define LIFETIME_ACCESS_H

#include "comm/settings.h"

/* Before the communicator is complete: permits the ranks that descend from the same launcher to
 * read this process's memory, where the system wants that. */
void lifetime_access_permit(void);

/* After all ranks have connected: tries whether this rank can read its peers' memory, and with
 * `reports` prints one line about it. */
void lifetime_access_find(struct coll_comm *comm, const comm_access_t *access);

#endif
