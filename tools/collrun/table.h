/* The table of ranks (flight/table.h) of the processes of a job. */
#ifndef COLLRUN_TABLE_H
#define COLLRUN_TABLE_H

#include "tools/collrun/spawn.h"

/* Searches the process groups of the running ranks for communicators, for at most one second.
 * *text: the table, if there is a communicator, and one sentence for each rank without one; the
 * caller frees it. *communicators: their number. COLL_ERROR_MEMORY. */
coll_status_t collrun_table_make(const collrun_rank_t ranks[], int count, char **text,
                                 int *communicators);

#endif
