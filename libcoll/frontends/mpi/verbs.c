/*
 * The table of verbs: how each is served, and how it is handed to the MPI, blocking or not.
 */
#include "frontends/mpi/verbs.h"

#include "frontends/mpi/serve.h"

/* The arguments of a side, with one count or one of each rank. */
#define SIDE(side) c->side.data, c->side.count, c->side.type
#define SIDE_V(side) c->side.data, c->side.counts, c->side.displs, c->side.type
#define REDUCED(counts_of) c->send.data, c->recv.data, c->recv.counts_of, c->recv.type, c->op

/* Defines the two functions that hand a call to MPI_name and MPI_Iname. */
#define PASS(name, lower, ...)                                            \
  static int pass_##lower(const layer_call_t *c) {                        \
    return pmpi.name(__VA_ARGS__);                                        \
  }                                                                       \
  static int start_##lower(const layer_call_t *c, MPI_Request *request) { \
    return pmpi.I##lower(__VA_ARGS__, request);                           \
  }

PASS(Allgather, allgather, SIDE(send), SIDE(recv), c->comm)
PASS(Allgatherv, allgatherv, SIDE(send), SIDE_V(recv), c->comm)
PASS(Allreduce, allreduce, REDUCED(count), c->comm)
PASS(Alltoall, alltoall, SIDE(send), SIDE(recv), c->comm)
PASS(Alltoallv, alltoallv, SIDE_V(send), SIDE_V(recv), c->comm)
PASS(Barrier, barrier, c->comm)
PASS(Bcast, bcast, SIDE(recv), c->root, c->comm)
PASS(Gather, gather, SIDE(send), SIDE(recv), c->root, c->comm)
PASS(Gatherv, gatherv, SIDE(send), SIDE_V(recv), c->root, c->comm)
PASS(Reduce, reduce, REDUCED(count), c->root, c->comm)
PASS(Reduce_scatter, reduce_scatter, REDUCED(counts), c->comm)
PASS(Reduce_scatter_block, reduce_scatter_block, REDUCED(count), c->comm)
PASS(Scatter, scatter, SIDE(send), SIDE(recv), c->root, c->comm)
PASS(Scatterv, scatterv, SIDE_V(send), SIDE(recv), c->root, c->comm)

enum { REDUCTION = 1, ROOT = 2, IRREGULAR = 4 };

#define ROW(name, lower, serve, traits)                                                \
  {                                                                                    \
#name, ((traits)&REDUCTION) != 0, ((traits)&ROOT) != 0, ((traits)&IRREGULAR) != 0, \
        layer_serve_##serve, pass_##lower, start_##lower                               \
  }

const layer_verb_row_t layer_verbs[LAYER_VERB_COUNT] = {
    [LAYER_ALLGATHER] = ROW(Allgather, allgather, allgather, 0),
    [LAYER_ALLGATHERV] = ROW(Allgatherv, allgatherv, allgatherv, 0),
    [LAYER_ALLREDUCE] = ROW(Allreduce, allreduce, allreduce, REDUCTION),
    [LAYER_ALLTOALL] = ROW(Alltoall, alltoall, alltoall, 0),
    [LAYER_ALLTOALLV] = ROW(Alltoallv, alltoallv, alltoallv, IRREGULAR),
    [LAYER_BARRIER] = ROW(Barrier, barrier, barrier, 0),
    [LAYER_BCAST] = ROW(Bcast, bcast, bcast, ROOT),
    [LAYER_GATHER] = ROW(Gather, gather, gather, ROOT),
    [LAYER_GATHERV] = ROW(Gatherv, gatherv, gatherv, ROOT | IRREGULAR),
    [LAYER_REDUCE] = ROW(Reduce, reduce, reduce, REDUCTION | ROOT),
    [LAYER_REDUCE_SCATTER] = ROW(Reduce_scatter, reduce_scatter, reduce_scatter, REDUCTION),
    [LAYER_REDUCE_SCATTER_BLOCK] =
        ROW(Reduce_scatter_block, reduce_scatter_block, reduce_scatter, REDUCTION),
    [LAYER_SCATTER] = ROW(Scatter, scatter, scatter, ROOT),
    [LAYER_SCATTERV] = ROW(Scatterv, scatterv, scatterv, ROOT | IRREGULAR),
};
