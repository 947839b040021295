/* LD_PRELOAD library for collbench: its coll_allreduce flips one bit of the result on rank 1. */
#include <coll.h>
#include <dlfcn.h>
#include <string.h>

typedef coll_status_t (*allreduce_t)(const void *, void *, size_t, coll_dtype_t, coll_op_t,
                                     coll_comm_t, coll_stream_t);

__attribute__((visibility("default"))) coll_status_t coll_allreduce(const void *send, void *recv,
                                                                    size_t count,
                                                                    coll_dtype_t dtype,
                                                                    coll_op_t op, coll_comm_t comm,
                                                                    coll_stream_t stream) {
  allreduce_t real;
  void *symbol = dlsym(RTLD_NEXT, "coll_allreduce");
  int rank;
  memcpy(&real, &symbol, sizeof real);
  coll_status_t status = real(send, recv, count, dtype, op, comm, stream);
  if (status == COLL_OK && coll_comm_rank(comm, &rank) == COLL_OK && rank == 1 && count > 5) {
    ((unsigned char *)recv)[5 * coll_dtype_bytes(dtype)] ^= 1;
  }
  return status;
}
