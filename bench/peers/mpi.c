/* Describes the MPI library that it is compiled with for peers_measure. */
#include <limits.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/tool.h"
#include "bench/collectives.h"
#include "bench/peers/measure.h"

/* MPI's default error handler ends the program, so a code that is returned is MPI_SUCCESS. It is
 * checked nevertheless. */
static const char *error_text(int code) {
  static char text[MPI_MAX_ERROR_STRING];
  int length;
  if (code == MPI_SUCCESS) return NULL;
  return MPI_Error_string(code, text, &length) == MPI_SUCCESS ? text : "an unknown MPI error";
}

/* Of the verbs whose blocks differ in size. Made for the count of the latest call. */
static struct {
  size_t count;
  bool even;
  int *counts, *displs;
} vectors;

static void fill_vectors(size_t count, int ranks, bool even) {
  bool filled = vectors.counts != NULL && vectors.count == count && vectors.even == even;
  if (filled) return;
  int before = 0;
  vectors.counts = realloc(vectors.counts, (size_t)ranks * sizeof *vectors.counts);
  vectors.displs = realloc(vectors.displs, (size_t)ranks * sizeof *vectors.displs);
  if (vectors.counts == NULL || vectors.displs == NULL) abort();
  for (int rank = 0; rank < ranks; rank++) {
    vectors.counts[rank] = (int)bench_rank_count(count, ranks, rank, even);
    vectors.displs[rank] = before;
    before += vectors.counts[rank];
  }
  vectors.count = count;
  vectors.even = even;
}

static bool supports(void *context, coll_collective_t collective) {
  (void)context;
  return collective != COLL_ALLTOALLV;
}

/* Sends to the next rank and receives from the previous one. */
static const char *shift(const peers_library_t *library, int count, const void *send, void *recv) {
  int next = (library->rank + 1) % library->ranks;
  int previous = (library->rank + library->ranks - 1) % library->ranks;
  return error_text(MPI_Sendrecv(send, count, MPI_FLOAT, next, 0, recv, count, MPI_FLOAT, previous,
                                 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
}

/* context: the library, so that a timed call need not ask MPI for this rank's number. */
static const char *call(void *context, const peers_call_t *call, const void *send, void *recv) {
  MPI_Comm comm = MPI_COMM_WORLD;
  const peers_library_t *library = context;
  if (call->count > INT_MAX) return "more elements than an MPI count holds";
  int count = (int)call->count, root = call->root;
  if (bench_collective_has_uneven_blocks(call->collective)) {
    if (call->count > INT_MAX / (size_t)library->ranks) return "displacements beyond an MPI int";
    fill_vectors(call->count, library->ranks, call->even);
  }
  switch (call->collective) {
    case COLL_ALLREDUCE:
      return error_text(MPI_Allreduce(send, recv, count, MPI_FLOAT, MPI_SUM, comm));
    case COLL_REDUCE:
      return error_text(MPI_Reduce(send, recv, count, MPI_FLOAT, MPI_SUM, root, comm));
    case COLL_REDUCE_SCATTER:
      return error_text(MPI_Reduce_scatter_block(send, recv, count, MPI_FLOAT, MPI_SUM, comm));
    case COLL_ALLGATHER:
      return error_text(MPI_Allgather(send, count, MPI_FLOAT, recv, count, MPI_FLOAT, comm));
    case COLL_ALLTOALL:
      return error_text(MPI_Alltoall(send, count, MPI_FLOAT, recv, count, MPI_FLOAT, comm));
    case COLL_GATHER:
      return error_text(MPI_Gather(send, count, MPI_FLOAT, recv, count, MPI_FLOAT, root, comm));
    case COLL_SCATTER:
      return error_text(MPI_Scatter(send, count, MPI_FLOAT, recv, count, MPI_FLOAT, root, comm));
    case COLL_ALLGATHERV:
      return error_text(MPI_Allgatherv(send, vectors.counts[library->rank], MPI_FLOAT, recv,
                                       vectors.counts, vectors.displs, MPI_FLOAT, comm));
    case COLL_REDUCE_SCATTERV:
      return error_text(MPI_Reduce_scatter(send, recv, vectors.counts, MPI_FLOAT, MPI_SUM, comm));
    case COLL_GATHERV:
      return error_text(MPI_Gatherv(send, vectors.counts[library->rank], MPI_FLOAT, recv,
                                    vectors.counts, vectors.displs, MPI_FLOAT, root, comm));
    case COLL_SCATTERV:
      return error_text(MPI_Scatterv(send, vectors.counts, vectors.displs, MPI_FLOAT, recv,
                                     vectors.counts[library->rank], MPI_FLOAT, root, comm));
    case COLL_SENDRECV: return shift(library, count, send, recv);
    case COLL_BARRIER: return error_text(MPI_Barrier(comm));
    case COLL_BROADCAST: break;
    default: return "MPI is not measured with this collective";
  }
  /* MPI_Bcast has one buffer, so out of place the root copies its input to it. */
  if (library->rank == root) memcpy(recv, send, call->count * sizeof(float));
  return error_text(MPI_Bcast(recv, count, MPI_FLOAT, root, comm));
}

static const char *barrier(void *context) {
  (void)context;
  return error_text(MPI_Barrier(MPI_COMM_WORLD));
}

static const char *max(void *context, double *values, int count) {
  (void)context;
  return error_text(
      MPI_Allreduce(MPI_IN_PLACE, values, count, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD));
}

static int run_tool(int argc, char **argv) {
  char version[MPI_MAX_LIBRARY_VERSION_STRING];
  int length;
  MPI_Init(&argc, &argv);
  MPI_Get_library_version(version, &length);
  version[strcspn(version, ",\n")] = '\0';
  for (char *c = version; *c != '\0'; c++) {
    if (*c == '\t') *c = ' ';
  }
  peers_library_t library = {
      .name = version, .supports = supports, .call = call, .barrier = barrier, .max = max};
  library.context = &library;
  MPI_Comm_rank(MPI_COMM_WORLD, &library.rank);
  MPI_Comm_size(MPI_COMM_WORLD, &library.ranks);
  int code = peers_measure(argc, argv, &library);
  if (code != 0) MPI_Abort(MPI_COMM_WORLD, code);
  MPI_Finalize();
  return code;
}

int main(int argc, char **argv) {
  return base_tool_main("peer-mpi", run_tool, argc, argv);
}
