/*
 * The loop of python_calls.py in C: calls coll_allreduce, whose address it is given, so that it
 * uses the libcoll that the Python process has loaded.
 */
#include <coll.h>
#include <time.h>

typedef coll_status_t allreduce_t(const void *send, void *recv, size_t count, coll_dtype_t dtype,
                                  coll_op_t op, coll_comm_t comm, coll_stream_t stream);

double time_allreduce(allreduce_t *allreduce, coll_comm_t comm, const void *send, void *recv,
                      size_t count, int calls);

/* Microseconds per call; negative if one failed. */
__attribute__((visibility("default"))) double time_allreduce(allreduce_t *allreduce,
                                                             coll_comm_t comm, const void *send,
                                                             void *recv, size_t count, int calls) {
  struct timespec began, ended;
  clock_gettime(CLOCK_MONOTONIC, &began);
  for (int i = 0; i < calls; i++) {
    if (allreduce(send, recv, count, COLL_FLOAT32, COLL_SUM, comm, NULL) != COLL_OK) return -1;
  }
  clock_gettime(CLOCK_MONOTONIC, &ended);
  double seconds =
      (double)(ended.tv_sec - began.tv_sec) + 1e-9 * (double)(ended.tv_nsec - began.tv_nsec);
  return seconds * 1e6 / calls;
}
