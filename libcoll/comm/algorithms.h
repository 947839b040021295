/*
 * Algorithms that are forced for a communicator's calls: by COLL_ALGO, its config or
 * coll_comm_algo_set.
 */
#ifndef COMM_ALGORITHMS_H
#define COMM_ALGORITHMS_H

#include "comm/comm.h"

/* Reads a list such as "allreduce=ring,broadcast=chain"; "": none. names[]: by collective; those
 * of the registry, or NULL. source: for messages (base_knob_source). COLL_ERROR_INVALID suggests
 * the nearest name. */
coll_status_t comm_algorithms_read(const char *text, const char *source,
                                   const char *names[COLL_COLLECTIVE_COUNT]);

/* By which ranks compare what they have read. */
uint64_t comm_algorithms_digest(const char *const names[COLL_COLLECTIVE_COUNT]);

/* COLL_ERROR_INVALID: the communicator is reproducible, and this algorithm reduces in an order of
 * its own among so many ranks. */
coll_status_t comm_algorithms_check(coll_collective_t collective, const char *name, int size,
                                    bool reproducible);

/* The same for all of a list. */
coll_status_t comm_algorithms_check_all(const char *const names[COLL_COLLECTIVE_COUNT], int size,
                                        bool reproducible);

/* Forces those of comm->inherited, which have passed the check, on a new communicator. */
void comm_algorithms_apply(struct coll_comm *comm);

#endif
