/*
 * Children of fork, whose parents are ranks.
 */
#include <criterion/criterion.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "nccl/interface.h"

/* On the board, behind the id of the parents. */
typedef struct meeting {
  ncclUniqueId parents, children;
  atomic_bool has_id;
} meeting_t;

#define REFUSED(call)                                               \
  do {                                                              \
    NCCL_RESULT(ncclInvalidUsage, call);                            \
    NCCL_REQUIRE(strstr(ncclGetLastError(NULL), "forked") != NULL); \
  } while (0)

static int sum(ncclComm_t comm) {
  int size, one = 1, found = 0;
  NCCL_OK(ncclCommCount(comm, &size));
  NCCL_OK(ncclAllReduce(&one, &found, 1, ncclInt, ncclSum, comm, NULL));
  NCCL_REQUIRE(found == size);
  return 0;
}

static int try_inherited(ncclComm_t comm, int rank, int size) {
  int numbers[4] = {0}, found = -1;
  ncclComm_t made;
  ncclResult_t state;
  ncclRedOp_t op;
  void *handle;
  NCCL_OK(ncclCommUserRank(comm, &found));
  NCCL_REQUIRE(found == rank);
  NCCL_OK(ncclCommCount(comm, &found));
  NCCL_REQUIRE(found == size);
  REFUSED(ncclAllReduce(numbers, numbers, 1, ncclInt, ncclSum, comm, NULL));
  NCCL_REQUIRE(strstr(ncclGetLastError(comm), "forked") != NULL);
  REFUSED(ncclBroadcast(numbers, numbers, 1, ncclInt, 0, comm, NULL));
  REFUSED(ncclAllGather(numbers, numbers, 1, ncclInt, comm, NULL));
  REFUSED(ncclReduceScatter(numbers, numbers, 1, ncclInt, ncclSum, comm, NULL));
  REFUSED(ncclSend(numbers, 1, ncclInt, 0, comm, NULL));
  REFUSED(ncclRecv(numbers, 1, ncclInt, 0, comm, NULL));
  REFUSED(ncclCommSplit(comm, 0, 0, &made, NULL));
  REFUSED(ncclCommFinalize(comm));
  REFUSED(ncclCommGetAsyncError(comm, &state));
  REFUSED(ncclRedOpCreatePreMulSum(&op, numbers, ncclInt, ncclScalarHostImmediate, comm));
  REFUSED(ncclCommRegister(comm, numbers, sizeof numbers, &handle));
  NCCL_OK(ncclGroupStart());
  REFUSED(ncclAllReduce(numbers, numbers, 1, ncclInt, ncclSum, comm, NULL));
  REFUSED(ncclGroupEnd());
  NCCL_OK(ncclCommAbort(comm));
  NCCL_OK(ncclCommDestroy(comm));
  return 0;
}

static int be_child(ncclComm_t comm, int rank, int size) {
  meeting_t *meeting = harness_board();
  ncclComm_t own;
  harness_forked();
  alarm(20 * (unsigned)HARNESS_PATIENCE);
  REFUSED(ncclGroupEnd()); /* that the parent has begun */
  if (try_inherited(comm, rank, size)) return 1;
  if (rank == 0) {
    NCCL_OK(ncclGetUniqueId(&meeting->children));
    atomic_store(&meeting->has_id, true);
  }
  while (!atomic_load(&meeting->has_id)) sched_yield();
  NCCL_OK(ncclCommInitRank(&own, size, meeting->children, rank));
  if (sum(own)) return 1;
  NCCL_OK(ncclCommDestroy(own));
  return 0;
}

static int fork_in_group(int rank, int size, void *context) {
  meeting_t *meeting = harness_board();
  ncclComm_t comm;
  int status, one = 1, found = 0;
  (void)context;
  if (rank == 0) NCCL_OK(ncclGetUniqueId(&meeting->parents));
  harness_barrier();
  NCCL_OK(ncclCommInitRank(&comm, size, meeting->parents, rank));
  if (sum(comm)) return 1;
  NCCL_OK(ncclGroupStart());
  NCCL_OK(ncclAllReduce(&one, &found, 1, ncclInt, ncclSum, comm, NULL));
  pid_t child = fork();
  if (child == 0) exit(be_child(comm, rank, size));
  waitpid(child, &status, 0);
  if (status != 0) return harness_fail("the child ended with %d", status);
  NCCL_OK(ncclGroupEnd());
  NCCL_REQUIRE(found == size);
  if (sum(comm)) return 1;
  NCCL_OK(ncclCommDestroy(comm));
  return 0;
}

Test(nccl_fork, leaves_the_communicator_to_the_parent) {
  NCCL_RUN(2, fork_in_group);
}
