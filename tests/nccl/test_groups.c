/*
 * Groups: empty ones, nested ones, failing ones, and those that are estimated only.
 */
#include <criterion/criterion.h>
#include <string.h>

#include "nccl/interface.h"

static int empty_and_nested(int rank, int size, void *context) {
  int in[2] = {1, 2}, out[2] = {0};
  ncclComm_t comms[2];
  (void)rank, (void)size, (void)context;
  NCCL_RESULT(ncclInvalidUsage, ncclGroupEnd());
  NCCL_OK(ncclGroupStart());
  NCCL_OK(ncclGroupEnd());
  NCCL_OK(ncclCommInitAll(comms, 2, NULL));
  NCCL_OK(ncclGroupStart());
  for (int i = 0; i < 2; i++) {
    NCCL_OK(ncclGroupStart());
    NCCL_OK(ncclAllReduce(&in[i], &out[i], 1, ncclInt, ncclSum, comms[i], NULL));
    NCCL_OK(ncclGroupEnd());
    NCCL_REQUIRE(out[i] == 0);
  }
  NCCL_OK(ncclGroupEnd());
  NCCL_REQUIRE(out[0] == 3 && out[1] == 3);
  for (int i = 0; i < 2; i++) NCCL_OK(ncclCommDestroy(comms[i]));
  return 0;
}

Test(nccl_groups, empty_and_nested) {
  NCCL_RUN(1, empty_and_nested);
}

/* The null stream and CUDA's two default ones, of which a call need not wait for any. */
static int two_streams(int rank, int size, void *context) {
  int in = rank + 1, out[2] = {0};
  ncclComm_t comm;
  (void)context;
  if (nccl_test_init(rank, size, &comm)) return 1;
  NCCL_OK(ncclGroupStart());
  NCCL_OK(ncclAllReduce(&in, &out[0], 1, ncclInt, ncclSum, comm, NULL));
  NCCL_OK(ncclAllReduce(&in, &out[1], 1, ncclInt, ncclProd, comm, (cudaStream_t)2));
  NCCL_OK(ncclGroupEnd());
  NCCL_REQUIRE(out[0] == 3 && out[1] == 2);
  NCCL_OK(ncclCommDestroy(comm));
  return 0;
}

Test(nccl_groups, two_streams) {
  NCCL_RUN(2, two_streams);
}

static int failing(int rank, int size, void *context) {
  int in[2] = {1, 2}, out[2] = {0};
  ncclComm_t comms[2], made = NULL;
  ncclUniqueId id;
  (void)rank, (void)size, (void)context;
  NCCL_OK(ncclCommInitAll(comms, 2, NULL));
  NCCL_OK(ncclGetUniqueId(&id));
  NCCL_OK(ncclGroupStart());
  NCCL_OK(ncclCommInitRank(&made, 1, id, 0));
  for (int i = 0; i < 2; i++) {
    NCCL_OK(ncclAllReduce(&in[i], &out[i], 1, ncclInt, ncclSum, comms[i], NULL));
  }
  NCCL_RESULT(ncclInvalidArgument,
              ncclAllReduce(in, out, 1, (ncclDataType_t)12, ncclSum, comms[0], NULL));
  NCCL_RESULT(ncclInvalidArgument, ncclGroupEnd());
  NCCL_REQUIRE(out[0] == 0 && out[1] == 0 && made == NULL);
  NCCL_REQUIRE(strstr(ncclGetLastError(NULL), "datatype 12") != NULL);

  NCCL_OK(ncclGroupStart()); /* the communicators work as before */
  for (int i = 0; i < 2; i++) {
    NCCL_OK(ncclAllReduce(&in[i], &out[i], 1, ncclInt, ncclSum, comms[i], NULL));
    NCCL_OK(ncclCommDestroy(comms[i])); /* behind the calls */
  }
  NCCL_OK(ncclGroupEnd());
  NCCL_REQUIRE(out[0] == 3 && out[1] == 3);
  return 0;
}

Test(nccl_groups, a_failing_group_does_nothing) {
  NCCL_RUN(1, failing);
}

static int simulate(int rank, int size, void *context) {
  static float in[2][1000], out[2][1000];
  ncclSimInfo_t info = NCCL_SIM_INFO_INITIALIZER;
  ncclComm_t comms[2];
  (void)rank, (void)size, (void)context;
  NCCL_OK(ncclCommInitAll(comms, 2, NULL));
  for (int i = 0; i < 2; i++) nccl_test_fill(in[i], 1000, i);
  NCCL_OK(ncclGroupStart());
  for (int i = 0; i < 2; i++) {
    NCCL_OK(ncclAllReduce(in[i], out[i], 1000, ncclFloat, ncclSum, comms[i], NULL));
  }
  NCCL_OK(ncclGroupSimulateEnd(&info));
  NCCL_REQUIRE(info.estimatedTime > 0 && info.estimatedTime < 1e6);
  NCCL_REQUIRE(out[0][0] == 0 && out[1][0] == 0); /* nothing ran */
  NCCL_OK(ncclGroupStart());
  info.magic = 0;
  NCCL_RESULT(ncclInvalidArgument, ncclGroupSimulateEnd(&info));
  for (int i = 0; i < 2; i++) NCCL_OK(ncclCommDestroy(comms[i]));
  return 0;
}

Test(nccl_groups, simulate) {
  NCCL_RUN(1, simulate);
}
