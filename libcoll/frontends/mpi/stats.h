/*
 * What COLL_MPI_STATS=1 prints when the MPI ends: the calls of MPI_COMM_WORLD's rank 0.
 */
#ifndef FRONTENDS_MPI_STATS_H
#define FRONTENDS_MPI_STATS_H

#include "frontends/mpi/verbs.h"

/* One call. saved_us: by how much the last trial of its choice found it faster than the MPI's. */
void layer_stats_add(layer_verb_t verb, int class, layer_way_t way, double saved_us);

/* The start of a non-blocking one. */
void layer_stats_add_nonblocking(layer_verb_t verb, int class, layer_way_t way);

void layer_stats_print(void);

#endif
