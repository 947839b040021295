/*
 * MPI's functions that test and wait. Requests of served collectives are completed first, or, where
 * one of several requests is enough, between tests.
 */
#include "frontends/mpi/requests.h"

/* Before a call of the MPI: requests are known only once the layer is active. */
static bool has_requests(int count, const MPI_Request *requests) {
  pmpi_load();
  return layer_requests_pending(count, requests);
}

static void poll_all(void) {
  pmpi_load();
  layer_requests_poll();
}

LAYER_EXPORT int MPI_Wait(MPI_Request *request, MPI_Status *status) {
  if (has_requests(1, request)) layer_requests_wait(1, request);
  bool is_held = layer_errors_hold();
  return layer_errors_release(is_held, pmpi.Wait(request, status));
}

LAYER_EXPORT int MPI_Waitall(int count, MPI_Request requests[], MPI_Status statuses[]) {
  if (has_requests(count, requests)) layer_requests_wait(count, requests);
  bool is_held = layer_errors_hold();
  return layer_errors_release(is_held, pmpi.Waitall(count, requests, statuses));
}

LAYER_EXPORT int MPI_Waitany(int count, MPI_Request requests[], int *index, MPI_Status *status) {
  int is_done = 0;
  if (!has_requests(count, requests)) {
    bool is_held = layer_errors_hold();
    return layer_errors_release(is_held, pmpi.Waitany(count, requests, index, status));
  }
  for (;;) {
    bool is_held = layer_errors_hold();
    int result = pmpi.Testany(count, requests, index, &is_done, status);
    layer_errors_release(is_held, result);
    if (result != MPI_SUCCESS || is_done) return result;
    layer_requests_turn();
  }
}

LAYER_EXPORT int MPI_Waitsome(int count, MPI_Request requests[], int *done, int indices[],
                              MPI_Status statuses[]) {
  if (!has_requests(count, requests)) {
    bool is_held = layer_errors_hold();
    return layer_errors_release(is_held, pmpi.Waitsome(count, requests, done, indices, statuses));
  }
  for (;;) {
    bool is_held = layer_errors_hold();
    int result = pmpi.Testsome(count, requests, done, indices, statuses);
    layer_errors_release(is_held, result);
    if (result != MPI_SUCCESS || *done != 0) return result;
    layer_requests_turn();
  }
}

LAYER_EXPORT int MPI_Test(MPI_Request *request, int *is_done, MPI_Status *status) {
  poll_all();
  bool is_held = layer_errors_hold();
  return layer_errors_release(is_held, pmpi.Test(request, is_done, status));
}

LAYER_EXPORT int MPI_Testall(int count, MPI_Request requests[], int *is_done,
                             MPI_Status statuses[]) {
  poll_all();
  bool is_held = layer_errors_hold();
  return layer_errors_release(is_held, pmpi.Testall(count, requests, is_done, statuses));
}

LAYER_EXPORT int MPI_Testany(int count, MPI_Request requests[], int *index, int *is_done,
                             MPI_Status *status) {
  poll_all();
  bool is_held = layer_errors_hold();
  return layer_errors_release(is_held, pmpi.Testany(count, requests, index, is_done, status));
}

LAYER_EXPORT int MPI_Testsome(int count, MPI_Request requests[], int *done, int indices[],
                              MPI_Status statuses[]) {
  poll_all();
  bool is_held = layer_errors_hold();
  return layer_errors_release(is_held, pmpi.Testsome(count, requests, done, indices, statuses));
}

LAYER_EXPORT int MPI_Request_get_status(MPI_Request request, int *is_done, MPI_Status *status) {
  poll_all();
  bool is_held = layer_errors_hold();
  return layer_errors_release(is_held, pmpi.Request_get_status(request, is_done, status));
}

/* ---- MPI 4.1 -------------------------------------------------------------------------------*/

/* The header that the layer is compiled with, and the MPI below it, may be older. A program that
 * calls one of these has an MPI with it. */
#define LAYER_SINCE_4_1(name, parameters, ...)                     \
  LAYER_EXPORT int MPI_##name parameters;                          \
  LAYER_EXPORT int MPI_##name parameters {                         \
    int(*pass) parameters;                                         \
    poll_all();                                                    \
    *(void **)&pass = pmpi_symbol("PMPI_" #name);                  \
    bool is_held = layer_errors_hold();                            \
    int result = pass == NULL ? MPI_ERR_OTHER : pass(__VA_ARGS__); \
    return layer_errors_release(is_held, result);                  \
  }

LAYER_SINCE_4_1(Request_get_status_all,
                (int count, const MPI_Request requests[], int *is_done, MPI_Status statuses[]),
                count, requests, is_done, statuses)
LAYER_SINCE_4_1(Request_get_status_any,
                (int count, const MPI_Request requests[], int *index, int *is_done,
                 MPI_Status *status),
                count, requests, index, is_done, status)
LAYER_SINCE_4_1(Request_get_status_some,
                (int count, const MPI_Request requests[], int *done, int indices[],
                 MPI_Status statuses[]),
                count, requests, done, indices, statuses)
