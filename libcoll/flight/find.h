/*
 * Finds the flight recorders of other processes, for reports and tools. A communicator's ranks
 * share a memfd that each of them has open, so /proc/PID/fd of any one of them leads to the
 * recorders of all. The memfd is mapped read-only and needs no action of the ranks.
 */
#ifndef FLIGHT_FIND_H
#define FLIGHT_FIND_H

#include "flight/recorder.h"

/* A communicator and its ranks' recorders. */
typedef struct flight_group {
  uint64_t communicator;
  int ranks;
  const char *first; /* rank 0's recorder */
  size_t stride;     /* distance between two recorders, in bytes */
  void *map;         /* owned */
  size_t map_bytes;
} flight_group_t;

/* Communicators found. Initialize it with zeros; free it with flight_found_free. */
typedef struct flight_found {
  flight_group_t *groups;
  size_t count, capacity;
} flight_found_t;

/* Adds the communicators that the process has open and that are not in `found` yet. Adds none if
 * the process has exited or belongs to another user. Returns COLL_OK or COLL_ERROR_MEMORY. */
coll_status_t flight_found_add_process(flight_found_t *found, int32_t pid);

void flight_found_free(flight_found_t *found);

static inline const flight_recorder_t *flight_group_recorder(const flight_group_t *group,
                                                             int rank) {
  return (const flight_recorder_t *)(const void *)(group->first + (size_t)rank * group->stride);
}

#endif
