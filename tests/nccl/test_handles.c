/*
 * Handles that are none: used twice, after they were destroyed, of another kind, or random. Each is
 * refused with a sentence, and the process goes on.
 */
#include <criterion/criterion.h>
#include <stdint.h>
#include <string.h>

#include "nccl/interface.h"
#include "verify/random.h"

#define REFUSED(call)                                  \
  do {                                                 \
    NCCL_RESULT(ncclInvalidUsage, call);               \
    NCCL_REQUIRE(strlen(ncclGetLastError(NULL)) > 20); \
  } while (0)

static char memory[4096];

static int refuse_comm(ncclComm_t comm) {
  float number = 1;
  int count;
  ncclComm_t made;
  ncclResult_t state;
  ncclRedOp_t op;
  ncclWindow_t window;
  void *handle;
  REFUSED(ncclAllReduce(&number, &number, 1, ncclFloat, ncclSum, comm, NULL));
  REFUSED(ncclBroadcast(&number, &number, 1, ncclFloat, 0, comm, NULL));
  REFUSED(ncclSend(&number, 1, ncclFloat, 0, comm, NULL));
  REFUSED(ncclRecv(&number, 1, ncclFloat, 0, comm, NULL));
  REFUSED(ncclCommCount(comm, &count));
  REFUSED(ncclCommUserRank(comm, &count));
  REFUSED(ncclCommCuDevice(comm, &count));
  REFUSED(ncclCommGetAsyncError(comm, &state));
  REFUSED(ncclCommSplit(comm, 0, 0, &made, NULL));
  REFUSED(ncclRedOpCreatePreMulSum(&op, &number, ncclFloat, ncclScalarHostImmediate, comm));
  REFUSED(ncclCommRegister(comm, memory, sizeof memory, &handle));
  REFUSED(ncclCommWindowRegister(comm, memory, sizeof memory, &window, 0));
  REFUSED(ncclCommFinalize(comm));
  REFUSED(ncclCommAbort(comm));
  REFUSED(ncclCommDestroy(comm));
  (void)ncclGetLastError(comm);
  return 0;
}

static int refusals(int rank, int size, void *context) {
  ncclComm_t comm, ended;
  ncclWindow_t window;
  void *handle;
  uint64_t random = 9;
  (void)rank, (void)size, (void)context;
  NCCL_OK(ncclCommInitAll(&comm, 1, NULL));
  NCCL_OK(ncclCommInitAll(&ended, 1, NULL));
  NCCL_OK(ncclCommDestroy(ended));
  NCCL_OK(ncclCommRegister(comm, memory, sizeof memory, &handle));
  NCCL_OK(ncclCommWindowRegister(comm, memory, sizeof memory, &window, 0));
  REFUSED(ncclCommDeregister(comm, window));
  REFUSED(ncclCommDeregister(comm, memory));
  REFUSED(ncclCommWindowDeregister(comm, (ncclWindow_t)handle));
  NCCL_OK(ncclCommDeregister(comm, handle));
  REFUSED(ncclCommDeregister(comm, handle));
  NCCL_OK(ncclCommWindowDeregister(comm, window));
  REFUSED(ncclCommWindowDeregister(comm, window));
  void *const none[] = {ended, handle, window, memory, &comm};
  for (int i = 0; i < 300; i++) {
    uintptr_t near = (uintptr_t)none[i % 5] + (i < 5 ? 0 : random_next(&random) % 100000);
    uintptr_t bits = i % 3 == 2 ? (uintptr_t)random_next(&random) : near;
    if (refuse_comm((ncclComm_t)bits) != 0) return 1;
    REFUSED(ncclCommDeregister(comm, (void *)bits));
    REFUSED(ncclCommWindowDeregister(comm, (ncclWindow_t)bits));
  }
  NCCL_OK(ncclCommDestroy(comm));
  return 0;
}

Test(nccl_handles, that_are_none_are_refused) {
  NCCL_RUN(1, refusals);
}
