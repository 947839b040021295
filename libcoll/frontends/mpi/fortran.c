/*
 * Open MPI's Fortran bindings, which call PMPI_* and so pass by the functions of C. Each function
 * has five names: four that compilers make of the same name, and that which the bindings of Fortran
 * 2008 call. Arguments are addresses; handles are numbers. MPICH's bindings call MPI_*.
 */
#include "frontends/mpi/abi.h"

#if defined(OMPI_MAJOR_VERSION)

#include <pthread.h>

#include "frontends/mpi/call.h"
#include "frontends/mpi/requests.h"

_Static_assert(sizeof(MPI_Fint) == sizeof(int), "integers of Fortran are those of C");

/* Declares the function ompi_lower_f and defines its other names. */
#define ALIAS(lower, name)                 \
  extern __typeof__(ompi_##lower##_f) name \
      __attribute__((alias("ompi_" #lower "_f"), visibility("default")));
#define FORTRAN(lower, UPPER, ...)                 \
  LAYER_EXPORT void ompi_##lower##_f(__VA_ARGS__); \
  ALIAS(lower, mpi_##lower)                        \
  ALIAS(lower, mpi_##lower##_)                     \
  ALIAS(lower, mpi_##lower##__)                    \
  ALIAS(lower, MPI_##UPPER)                        \
  void ompi_##lower##_f(__VA_ARGS__)

/* ---- constants -----------------------------------------------------------------------------*/

/* Constants are variables of Fortran; the call gets their addresses. */
enum { SPELLINGS = 4 };
static const void *in_place[SPELLINGS], *bottom[SPELLINGS];

static void find_constants(void) {
  static const char *const in_place_names[SPELLINGS] = {
      "mpi_fortran_in_place", "mpi_fortran_in_place_", "mpi_fortran_in_place__",
      "MPI_FORTRAN_IN_PLACE"};
  static const char *const bottom_names[SPELLINGS] = {"mpi_fortran_bottom", "mpi_fortran_bottom_",
                                                      "mpi_fortran_bottom__", "MPI_FORTRAN_BOTTOM"};
  pmpi_load();
  for (int i = 0; i < SPELLINGS; i++) {
    in_place[i] = pmpi_symbol(in_place_names[i]);
    bottom[i] = pmpi_symbol(bottom_names[i]);
  }
}

static void *address(void *data) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, find_constants);
  if (data == NULL) return NULL;
  for (int i = 0; i < SPELLINGS; i++) {
    if (data == in_place[i]) return MPI_IN_PLACE;
    if (data == bottom[i]) return MPI_BOTTOM;
  }
  return data;
}

/* The sides of a call. Irregular ones have arrays of counts and displacements. */
static layer_side_t side(void *data, const MPI_Fint *count, const MPI_Fint *type) {
  void *found = address(data);
  return layer_side(found, *count, pmpi.Type_f2c(*type));
}

static layer_side_t side_v(void *data, const MPI_Fint *counts, const MPI_Fint *displs,
                           const MPI_Fint *type) {
  void *found = address(data);
  return layer_side_v(found, counts, displs, pmpi.Type_f2c(*type));
}

static MPI_Op op_of(const MPI_Fint *op) {
  pmpi_load();
  return pmpi.Op_f2c(*op);
}

static void collective(layer_call_t call, const MPI_Fint *comm, MPI_Fint *error) {
  pmpi_load();
  call.comm = pmpi.Comm_f2c(*comm);
  *error = layer_collective(&call);
}

static void start(layer_call_t call, const MPI_Fint *comm, MPI_Fint *request, MPI_Fint *error) {
  MPI_Request handle;
  pmpi_load();
  call.comm = pmpi.Comm_f2c(*comm);
  *error = layer_start_collective(&call, &handle);
  if (*error == MPI_SUCCESS) *request = pmpi.Request_c2f(handle);
}

/* ---- collectives ---------------------------------------------------------------------------*/

#define CALL(VERB, ...) ((layer_call_t){.verb = LAYER_##VERB, __VA_ARGS__})

/* Defines the blocking and the non-blocking function, whose first arguments are the same. */
#define COLLECTIVE(lower, UPPER, call, ...)                                                      \
  FORTRAN(lower, UPPER, __VA_ARGS__, MPI_Fint *comm, MPI_Fint *error) {                          \
    collective(call, comm, error);                                                               \
  }                                                                                              \
  FORTRAN(i##lower, I##UPPER, __VA_ARGS__, MPI_Fint *comm, MPI_Fint *request, MPI_Fint *error) { \
    start(call, comm, request, error);                                                           \
  }

COLLECTIVE(allgather, ALLGATHER,
           CALL(ALLGATHER, .send = side(send, send_count, send_type),
                .recv = side(recv, recv_count, recv_type)),
           void *send, MPI_Fint *send_count, MPI_Fint *send_type, void *recv, MPI_Fint *recv_count,
           MPI_Fint *recv_type)

COLLECTIVE(allgatherv, ALLGATHERV,
           CALL(ALLGATHERV, .send = side(send, send_count, send_type),
                .recv = side_v(recv, recv_counts, recv_displs, recv_type)),
           void *send, MPI_Fint *send_count, MPI_Fint *send_type, void *recv, MPI_Fint *recv_counts,
           MPI_Fint *recv_displs, MPI_Fint *recv_type)

COLLECTIVE(allreduce, ALLREDUCE,
           CALL(ALLREDUCE, .op = op_of(op), .send = side(send, count, type),
                .recv = side(recv, count, type)),
           void *send, void *recv, MPI_Fint *count, MPI_Fint *type, MPI_Fint *op)

COLLECTIVE(alltoall, ALLTOALL,
           CALL(ALLTOALL, .send = side(send, send_count, send_type),
                .recv = side(recv, recv_count, recv_type)),
           void *send, MPI_Fint *send_count, MPI_Fint *send_type, void *recv, MPI_Fint *recv_count,
           MPI_Fint *recv_type)

COLLECTIVE(alltoallv, ALLTOALLV,
           CALL(ALLTOALLV, .send = side_v(send, send_counts, send_displs, send_type),
                .recv = side_v(recv, recv_counts, recv_displs, recv_type)),
           void *send, MPI_Fint *send_counts, MPI_Fint *send_displs, MPI_Fint *send_type,
           void *recv, MPI_Fint *recv_counts, MPI_Fint *recv_displs, MPI_Fint *recv_type)

FORTRAN(barrier, BARRIER, MPI_Fint *comm, MPI_Fint *error) {
  collective((layer_call_t){.verb = LAYER_BARRIER}, comm, error);
}

FORTRAN(ibarrier, IBARRIER, MPI_Fint *comm, MPI_Fint *request, MPI_Fint *error) {
  start((layer_call_t){.verb = LAYER_BARRIER}, comm, request, error);
}

COLLECTIVE(bcast, BCAST, CALL(BCAST, .root = *root, .recv = side(data, count, type)), void *data,
           MPI_Fint *count, MPI_Fint *type, MPI_Fint *root)

COLLECTIVE(gather, GATHER,
           CALL(GATHER, .root = *root, .send = side(send, send_count, send_type),
                .recv = side(recv, recv_count, recv_type)),
           void *send, MPI_Fint *send_count, MPI_Fint *send_type, void *recv, MPI_Fint *recv_count,
           MPI_Fint *recv_type, MPI_Fint *root)

COLLECTIVE(gatherv, GATHERV,
           CALL(GATHERV, .root = *root, .send = side(send, send_count, send_type),
                .recv = side_v(recv, recv_counts, recv_displs, recv_type)),
           void *send, MPI_Fint *send_count, MPI_Fint *send_type, void *recv, MPI_Fint *recv_counts,
           MPI_Fint *recv_displs, MPI_Fint *recv_type, MPI_Fint *root)

COLLECTIVE(reduce, REDUCE,
           CALL(REDUCE, .op = op_of(op), .root = *root, .send = side(send, count, type),
                .recv = side(recv, count, type)),
           void *send, void *recv, MPI_Fint *count, MPI_Fint *type, MPI_Fint *op, MPI_Fint *root)

COLLECTIVE(reduce_scatter, REDUCE_SCATTER,
           CALL(REDUCE_SCATTER, .op = op_of(op), .send = side_v(send, counts, NULL, type),
                .recv = side_v(recv, counts, NULL, type)),
           void *send, void *recv, MPI_Fint *counts, MPI_Fint *type, MPI_Fint *op)

COLLECTIVE(reduce_scatter_block, REDUCE_SCATTER_BLOCK,
           CALL(REDUCE_SCATTER_BLOCK, .op = op_of(op), .send = side(send, count, type),
                .recv = side(recv, count, type)),
           void *send, void *recv, MPI_Fint *count, MPI_Fint *type, MPI_Fint *op)

COLLECTIVE(scatter, SCATTER,
           CALL(SCATTER, .root = *root, .send = side(send, send_count, send_type),
                .recv = side(recv, recv_count, recv_type)),
           void *send, MPI_Fint *send_count, MPI_Fint *send_type, void *recv, MPI_Fint *recv_count,
           MPI_Fint *recv_type, MPI_Fint *root)

COLLECTIVE(scatterv, SCATTERV,
           CALL(SCATTERV, .root = *root, .send = side_v(send, send_counts, send_displs, send_type),
                .recv = side(recv, recv_count, recv_type)),
           void *send, MPI_Fint *send_counts, MPI_Fint *send_displs, MPI_Fint *send_type,
           void *recv, MPI_Fint *recv_count, MPI_Fint *recv_type, MPI_Fint *root)

/* ---- completion ----------------------------------------------------------------------------*/

/* Calls the binding of this name, which the layer does not intercept under it. */
#define BINDING(lower, ...)                                                    \
  do {                                                                         \
    static __typeof__(&ompi_##lower##_f) binding;                              \
    if (binding == NULL) *(void **)&binding = pmpi_symbol("pmpi_" #lower "_"); \
    bool is_held = layer_errors_hold();                                        \
    binding(__VA_ARGS__);                                                      \
    layer_errors_release(is_held, MPI_SUCCESS);                                \
  } while (0)

/* Whether one of them is of a served collective. */
static bool is_pending(MPI_Fint count, const MPI_Fint *requests) {
  pmpi_load();
  for (int i = 0; i < count; i++) {
    MPI_Request request = pmpi.Request_f2c(requests[i]);
    if (layer_requests_pending(1, &request)) return true;
  }
  return false;
}

FORTRAN(test, TEST, MPI_Fint *request, MPI_Fint *is_done, MPI_Fint *status, MPI_Fint *error) {
  layer_requests_poll();
  BINDING(test, request, is_done, status, error);
}

FORTRAN(testall, TESTALL, MPI_Fint *count, MPI_Fint *requests, MPI_Fint *is_done,
        MPI_Fint *statuses, MPI_Fint *error) {
  layer_requests_poll();
  BINDING(testall, count, requests, is_done, statuses, error);
}

FORTRAN(testany, TESTANY, MPI_Fint *count, MPI_Fint *requests, MPI_Fint *index, MPI_Fint *is_done,
        MPI_Fint *status, MPI_Fint *error) {
  layer_requests_poll();
  BINDING(testany, count, requests, index, is_done, status, error);
}

FORTRAN(testsome, TESTSOME, MPI_Fint *count, MPI_Fint *requests, MPI_Fint *done, MPI_Fint *indices,
        MPI_Fint *statuses, MPI_Fint *error) {
  layer_requests_poll();
  BINDING(testsome, count, requests, done, indices, statuses, error);
}

FORTRAN(request_get_status, REQUEST_GET_STATUS, MPI_Fint *request, MPI_Fint *is_done,
        MPI_Fint *status, MPI_Fint *error) {
  layer_requests_poll();
  BINDING(request_get_status, request, is_done, status, error);
}

FORTRAN(wait, WAIT, MPI_Fint *request, MPI_Fint *status, MPI_Fint *error) {
  while (is_pending(1, request)) layer_requests_turn();
  BINDING(wait, request, status, error);
}

FORTRAN(waitall, WAITALL, MPI_Fint *count, MPI_Fint *requests, MPI_Fint *statuses,
        MPI_Fint *error) {
  while (is_pending(*count, requests)) layer_requests_turn();
  BINDING(waitall, count, requests, statuses, error);
}

FORTRAN(waitany, WAITANY, MPI_Fint *count, MPI_Fint *requests, MPI_Fint *index, MPI_Fint *status,
        MPI_Fint *error) {
  MPI_Fint is_done = 0;
  if (!is_pending(*count, requests)) {
    BINDING(waitany, count, requests, index, status, error);
    return;
  }
  for (;;) {
    BINDING(testany, count, requests, index, &is_done, status, error);
    if (*error != MPI_SUCCESS || is_done) return;
    layer_requests_turn();
  }
}

FORTRAN(waitsome, WAITSOME, MPI_Fint *count, MPI_Fint *requests, MPI_Fint *done, MPI_Fint *indices,
        MPI_Fint *statuses, MPI_Fint *error) {
  if (!is_pending(*count, requests)) {
    BINDING(waitsome, count, requests, done, indices, statuses, error);
    return;
  }
  for (;;) {
    BINDING(testsome, count, requests, done, indices, statuses, error);
    if (*error != MPI_SUCCESS || *done != 0) return;
    layer_requests_turn();
  }
}

#endif
