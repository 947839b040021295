/*
 * The collectives that the layer serves, as data.
 */
#ifndef FRONTENDS_MPI_VERBS_H
#define FRONTENDS_MPI_VERBS_H

#include "frontends/mpi/comms.h"
#include "frontends/mpi/types.h"

#define LAYER_SCRATCH_MAX 6

/* There is no memory for packed data, or the MPI refused to pack it: no status of libcoll. */
#define LAYER_ERROR_PACK COLL_STATUS_COUNT

typedef enum layer_verb {
  LAYER_ALLGATHER,
  LAYER_ALLGATHERV,
  LAYER_ALLREDUCE,
  LAYER_ALLTOALL,
  LAYER_ALLTOALLV,
  LAYER_BARRIER,
  LAYER_BCAST,
  LAYER_GATHER,
  LAYER_GATHERV,
  LAYER_REDUCE,
  LAYER_REDUCE_SCATTER,
  LAYER_REDUCE_SCATTER_BLOCK,
  LAYER_SCATTER,
  LAYER_SCATTERV,
  LAYER_VERB_COUNT
} layer_verb_t;

/* One of the two buffers of a call, as the program gives it. counts NULL: blocks of `count`. */
typedef struct layer_side {
  void *data;
  int count;
  const int *counts, *displs;
  MPI_Datatype type;
} layer_side_t;

static inline layer_side_t layer_side(const void *data, int count, MPI_Datatype type) {
  return (layer_side_t){.data = (void *)data, .count = count, .type = type};
}

static inline layer_side_t layer_side_v(const void *data, const int *counts, const int *displs,
                                        MPI_Datatype type) {
  return (layer_side_t){.data = (void *)data, .counts = counts, .displs = displs, .type = type};
}

/* The arguments of any collective. The one buffer of MPI_Bcast is `recv`; a reduction has its
 * datatype in both sides. */
typedef struct layer_call {
  layer_verb_t verb;
  MPI_Comm comm;
  MPI_Op op;
  int root;
  layer_side_t send, recv;
} layer_call_t;

/* A call that is served. Types are copies, as a program may free a type while a call is under way.
 */
typedef struct layer_run {
  const layer_call_t *call;
  layer_comm_t *comm;
  coll_stream_t stream;
  layer_type_t send_type, recv_type; /* of the sides that this rank uses; else their size is 0 */
  size_t bytes;                      /* decides with the verb: what it is, verbs.c says */
  coll_op_t op;                      /* of a reduction */
  void *scratch[LAYER_SCRATCH_MAX];  /* freed when the call is done */
  int scratch_count;
  const char *packed; /* not NULL: what is to be unpacked into recv when the call is done */
  int packed_first;   /* its blocks are those of recv from this one on */
  int packed_blocks;  /* block `skipped` is left out, -1: none */
  int skipped;
} layer_run_t;

typedef struct layer_verb_row {
  const char *name; /* "Allreduce" */
  bool is_reduction, has_root;
  bool is_irregular; /* no rank knows the sizes of all blocks */
  coll_status_t (*serve)(layer_run_t *run);
  int (*pass)(const layer_call_t *call);
  int (*start)(const layer_call_t *call, MPI_Request *request); /* passes the non-blocking form */
} layer_verb_row_t;

extern const layer_verb_row_t layer_verbs[LAYER_VERB_COUNT];

/* Fills the run, but for a stream. False: the call is one that passes, which follows from arguments
 * that all ranks have in common, or it is wrong. */
bool layer_run_prepare(layer_run_t *run, const layer_call_t *call, layer_comm_t *comm);

/* Unpacks what was received, if the call has succeeded, and frees what the run holds. False: the
 * MPI could not unpack it. */
bool layer_run_finish(layer_run_t *run, bool has_succeeded);

#endif
