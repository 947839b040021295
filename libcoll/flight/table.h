/*
 * The table of ranks: what each rank of some communicators does, one line per rank and
 * communicator. It is made from the ranks' flight recorders and from what the kernel says of their
 * processes, so it shows ranks that are stopped or have died as well. Nobody is waited for.
 */
#ifndef FLIGHT_TABLE_H
#define FLIGHT_TABLE_H

#include "flight/find.h"

struct flight_row;

/* Starts zeroed; free it with flight_table_free. */
typedef struct flight_table {
  struct flight_row *rows;
  size_t count, capacity;
  int communicators;
} flight_table_t;

bool flight_table_has(const flight_table_t *table, uint64_t communicator);

/* Adds what one recorder says now; all ranks of a communicator one after the other. `ranks` is the
 * communicator's size. COLL_ERROR_MEMORY. */
coll_status_t flight_table_add(flight_table_t *table, const flight_recorder_t *recorder,
                               uint64_t communicator, int rank, int ranks);

/* Adds all ranks of the communicators found that are not there yet. */
coll_status_t flight_table_add_found(flight_table_t *table, const flight_found_t *found);

/* The lines, of which the first names the columns. *text is the caller's to free.
 * COLL_ERROR_MEMORY. */
coll_status_t flight_table_write(const flight_table_t *table, char **text, size_t *bytes);

/* Whether a row is of a process that has this pid in the namespace of this process. */
bool flight_table_shows(const flight_table_t *table, int32_t pid);

void flight_table_free(flight_table_t *table);

#endif
