/*
 * What the tests of the NCCL front end have in common.
 */
#include "nccl/interface.h"

#include <time.h>

int nccl_test_init(int rank, int size, ncclComm_t *comm) {
  ncclUniqueId *id = harness_board();
  if (rank == 0) NCCL_OK(ncclGetUniqueId(id));
  harness_barrier();
  NCCL_OK(ncclCommInitRank(comm, size, *id, rank));
  harness_barrier(); /* the board may hold another id from here on */
  return 0;
}

ncclResult_t nccl_test_wait(ncclComm_t comm) {
  ncclResult_t state = ncclInProgress;
  while (state == ncclInProgress) {
    if (ncclCommGetAsyncError(comm, &state) != ncclSuccess) return ncclInternalError;
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
  }
  return state;
}

void nccl_test_fill(float *buffer, size_t count, int rank) {
  for (size_t i = 0; i < count; i++) buffer[i] = (float)(rank + 1) * (float)(i % 5 + 1);
}

int nccl_test_holds(const float *buffer, size_t first, size_t count, float factor) {
  for (size_t i = 0; i < count; i++) {
    if (buffer[i] != factor * (float)((first + i) % 5 + 1)) return 0;
  }
  return 1;
}
