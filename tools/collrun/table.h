/* The table of ranks (flight/table.h) of a job's processes. */
#ifndef COLLRUN_TABLE_H
#define COLLRUN_TABLE_H

#include "tools/collrun/launch.h"

/* Looks for communicators in the process groups of the ranks that run, for a second at most, and
 * makes a text of what it finds: the table, where there is any communicator, and sentences about
 * ranks that are in none. *communicators: how many there are. *text is the caller's to free.
 * COLL_ERROR_MEMORY. */
coll_status_t collrun_table_make(const collrun_rank_t ranks[], int count, char **text,
                                 int *communicators);

#endif
