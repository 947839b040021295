/*
 * The calls of libcoll for the collectives of the MPI, by the names of layer_verbs.
 */
#ifndef FRONTENDS_MPI_SERVE_H
#define FRONTENDS_MPI_SERVE_H

#include "frontends/mpi/verbs.h"

coll_status_t layer_serve_allgather(layer_run_t *run);
coll_status_t layer_serve_allgatherv(layer_run_t *run);
coll_status_t layer_serve_allreduce(layer_run_t *run);
coll_status_t layer_serve_alltoall(layer_run_t *run);
coll_status_t layer_serve_alltoallv(layer_run_t *run);
coll_status_t layer_serve_barrier(layer_run_t *run);
coll_status_t layer_serve_bcast(layer_run_t *run);
coll_status_t layer_serve_gather(layer_run_t *run);
coll_status_t layer_serve_gatherv(layer_run_t *run);
coll_status_t layer_serve_reduce(layer_run_t *run);
coll_status_t layer_serve_reduce_scatter(layer_run_t *run); /* and MPI_Reduce_scatter_block */
coll_status_t layer_serve_scatter(layer_run_t *run);
coll_status_t layer_serve_scatterv(layer_run_t *run);

#endif
