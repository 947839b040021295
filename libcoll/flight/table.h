/*
 * The table of ranks: the state of each rank of some communicators, one line per rank and
 * communicator. It is made from the ranks' flight recorders and from the kernel's information on
 * their processes, so it also shows stopped and dead ranks. It waits for no rank.
 */
#ifndef FLIGHT_TABLE_H
#define FLIGHT_TABLE_H

#include "flight/find.h"

struct flight_row;

/* Initialize it with zeros; free it with flight_table_free. */
typedef struct flight_table {
  struct flight_row *rows;
  size_t count, capacity;
  int communicators;
} flight_table_t;

bool flight_table_has(const flight_table_t *table, uint64_t communicator);

/* Adds the current state of one recorder. The ranks of a communicator are added one after the
 * other. `ranks` is the communicator's size. Returns COLL_OK or COLL_ERROR_MEMORY. */
coll_status_t flight_table_add(flight_table_t *table, const flight_recorder_t *recorder,
                               uint64_t communicator, int rank, int ranks);

/* Adds all ranks of the communicators in `found` that are not in the table yet. */
coll_status_t flight_table_add_found(flight_table_t *table, const flight_found_t *found);

/* Formats the table; the first line names the columns. The caller frees *text. Returns COLL_OK or
 * COLL_ERROR_MEMORY. */
coll_status_t flight_table_write(const flight_table_t *table, char **text, size_t *bytes);

/* Whether a row belongs to process `pid` of this process's pid namespace. */
bool flight_table_shows(const flight_table_t *table, int32_t pid);

void flight_table_free(flight_table_t *table);

#endif
