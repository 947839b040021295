/* collbench --show-routes: a matrix of what the messages between each two ranks go over. */
#ifndef BENCH_ROUTES_H
#define BENCH_ROUTES_H

#include <coll.h>

#include <stdio.h>

/* Collective. Rank 0 prints the matrix: a row for each sending rank, a column for each receiving
 * one. */
coll_status_t bench_routes_show(coll_comm_t comm, FILE *out);

#endif
