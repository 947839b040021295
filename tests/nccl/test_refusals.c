/*
 * What cannot be done is refused with a sentence: streams and memory of GPUs, types and reductions
 * that NCCL does not have, kernels' needs. And what NCCL_* variables do.
 */
#include <criterion/criterion.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "nccl/interface.h"

static int refusals(int rank, int size, void *context) {
  ncclComm_t comm;
  ncclResult_t state;
  int value = 1;
  (void)rank, (void)size, (void)context;
  NCCL_OK(ncclCommInitAll(&comm, 1, NULL));
  NCCL_RESULT(ncclUnhandledCudaError, ncclAllReduce(&value, &value, 1, ncclInt, ncclSum, comm,
                                                    (cudaStream_t)(void *)&value));
  NCCL_REQUIRE(strstr(ncclGetLastError(comm), "stream") != NULL);
  NCCL_RESULT(ncclInvalidArgument,
              ncclAllReduce(&value, &value, 1, ncclNumTypes, ncclSum, comm, NULL));
  NCCL_RESULT(ncclInvalidArgument,
              ncclAllReduce(&value, &value, 1, ncclInt, (ncclRedOp_t)5, comm, NULL));
  NCCL_RESULT(ncclInvalidArgument, ncclRedOpDestroy(ncclSum, comm));
  NCCL_RESULT(ncclInvalidArgument, ncclBroadcast(&value, &value, 1, ncclInt, 1, comm, NULL));
  NCCL_RESULT(ncclInvalidArgument, ncclCommSplit(comm, -2, 0, &comm, NULL));
  NCCL_OK(ncclCommGetAsyncError(comm, &state));
  NCCL_REQUIRE(state == ncclSuccess); /* nothing of it has harmed the communicator */
  NCCL_OK(ncclCommDestroy(comm));
  return 0;
}

Test(nccl_refusals, arguments) {
  NCCL_RUN(1, refusals);
}

/* With a driver in the process that says that some addresses are a GPU's, and is good for nothing
 * else. */
static int device_memory(int rank, int size, void *context) {
  static char gpu[2][64];
  ncclComm_t comm;
  void *handle;
  (void)rank, (void)size, (void)context;
  void *driver = dlopen(NCCL_DRIVER_STANDIN, RTLD_NOW);
  NCCL_REQUIRE(driver != NULL);
  char **device = dlsym(driver, "standin_device_memory");
  char **managed = dlsym(driver, "standin_managed_memory");
  NCCL_REQUIRE(device != NULL && managed != NULL);
  *device = gpu[0];
  *managed = gpu[1];
  NCCL_OK(ncclCommInitAll(&comm, 1, NULL));
  NCCL_RESULT(ncclUnhandledCudaError, ncclBcast(gpu[0], 1, ncclInt, 0, comm, NULL));
  NCCL_REQUIRE(strstr(ncclGetLastError(comm), "is not NVIDIA's driver") != NULL);
  NCCL_RESULT(ncclUnhandledCudaError, ncclBcast(gpu[1], 1, ncclInt, 0, comm, NULL));
  NCCL_OK(ncclCommRegister(comm, gpu[0], 64, &handle));
  NCCL_OK(ncclCommDeregister(comm, handle));
  NCCL_OK(ncclCommDestroy(comm));
  return 0;
}

Test(nccl_refusals, device_memory) {
  NCCL_RUN(1, device_memory);
}

/* Functions that newer releases have: looked up, as the header may be older. */
static int newer_functions(int rank, int size, void *context) {
  struct {
    int size, rank, stride;
  } team;
  ncclResult_t (*signal)(int, int, int, unsigned, ncclComm_t, cudaStream_t);
  ncclResult_t (*get_text)(const char *, const char **, int *);
  ncclResult_t (*suspend)(ncclComm_t, int), (*resume)(ncclComm_t);
  __typeof__(team) (*world)(ncclComm_t);
  ncclComm_t comm;
  const char *text;
  int length, value = 0;
  (void)rank, (void)size, (void)context;
  *(void **)&signal = dlsym(RTLD_DEFAULT, "ncclSignal");
  *(void **)&get_text = dlsym(RTLD_DEFAULT, "pncclParamGetParameter");
  *(void **)&suspend = dlsym(RTLD_DEFAULT, "ncclCommSuspend");
  *(void **)&resume = dlsym(RTLD_DEFAULT, "ncclCommResume");
  *(void **)&world = dlsym(RTLD_DEFAULT, "ncclTeamWorld");
  NCCL_REQUIRE(signal && get_text && suspend && resume && world);
  NCCL_OK(ncclCommInitAll(&comm, 1, NULL));
  NCCL_RESULT(ncclInvalidUsage, signal(0, 0, 0, 0, comm, NULL));
  NCCL_REQUIRE(strstr(ncclGetLastError(NULL), "does not support one-sided") != NULL);
  setenv("NCCL_ALGO", "ring", 1);
  NCCL_OK(get_text("NCCL_ALGO", &text, &length));
  NCCL_REQUIRE(strcmp(text, "ring") == 0 && length == 4);
  NCCL_OK(suspend(comm, 1));
  NCCL_RESULT(ncclInvalidUsage, ncclBcast(&value, 1, ncclInt, 0, comm, NULL));
  NCCL_OK(resume(comm));
  NCCL_OK(ncclBcast(&value, 1, ncclInt, 0, comm, NULL));
  team = world(comm);
  NCCL_REQUIRE(team.size == 1 && team.rank == 0 && team.stride == 1);
  NCCL_OK(ncclCommDestroy(comm));
  return 0;
}

Test(nccl_refusals, newer_functions) {
  NCCL_RUN(1, newer_functions);
}

/* ---- variables -------------------------------------------------------------------------------*/

/* Sends standard error to memory, where NCCL_DEBUG shows what variables become. */
static int log_to_memory(void) {
  int fd = memfd_create("log", 0);
  setenv("NCCL_DEBUG", "INFO", 1);
  return fd >= 0 && dup2(fd, STDERR_FILENO) == STDERR_FILENO ? 0 : harness_fail("no memory file");
}

/* Whether a line of the log ends with ": NAME=VALUE"; value NULL: with any. The environment has no
 * such variable. */
static bool has(const char *name, const char *value) {
  char text[8192], line[256];
  ssize_t bytes = pread(STDERR_FILENO, text, sizeof text - 1, 0);
  text[bytes > 0 ? bytes : 0] = '\0';
  snprintf(line, sizeof line, ": %s=%s%s", name, value != NULL ? value : "",
           value != NULL ? "\n" : "");
  return strstr(text, line) != NULL && getenv(name) == NULL;
}

static int variables(int rank, int size, void *context) {
  ncclComm_t comm;
  int version, value = 0;
  (void)rank, (void)size, (void)context;
  setenv("NCCL_SOCKET_IFNAME", "^=docker0,lo", 1);
  setenv("NCCL_IB_HCA", "=mlx5_0:1,mlx5_1", 1);
  setenv("NCCL_IB_GID_INDEX", "3", 1);
  setenv("NCCL_IB_TC", "106", 1);
  setenv("COLL_IB_TC", "96", 1);
  setenv("NCCL_SHM_DISABLE", "1", 1);
  setenv("NCCL_P2P_DISABLE", "1", 1);
  setenv("NCCL_HOSTID", "here", 1);
  setenv("NCCL_IB_SL", "", 1);
  setenv("NCCL_ALGO", "allreduce:tree;allgather:ring", 1);
  if (log_to_memory() != 0) return 1;
  NCCL_OK(ncclGetVersion(&version));
  NCCL_REQUIRE(version == 22809);
  static const char *const wrong[] = {"", "2.30.7", "1999", "23007x"};
  for (int i = 0; i < 4; i++) {
    setenv("COLL_NCCL_VERSION", wrong[i], 1);
    NCCL_REQUIRE(ncclGetVersion(&version) == ncclInvalidUsage && version == 22809);
  }
  setenv("COLL_NCCL_VERSION", "23007", 1);
  NCCL_OK(ncclGetVersion(&version));
  NCCL_REQUIRE(version == 23007);
  NCCL_OK(ncclCommInitAll(&comm, 1, NULL));
  NCCL_REQUIRE(has("COLL_INTERFACES", "^=docker0,^=lo"));
  NCCL_REQUIRE(has("COLL_IB_HCA", "=mlx5_0:1,=mlx5_1"));
  NCCL_REQUIRE(has("COLL_IB_GID_INDEX", "3"));
  NCCL_REQUIRE(!has("COLL_IB_TC", "106") && strcmp(getenv("COLL_IB_TC"), "96") == 0);
  NCCL_REQUIRE(has("COLL_TRANSPORTS", "verbs,tcp") && has("COLL_GET", "off"));
  NCCL_REQUIRE(has("COLL_HOST_ID", "here") && !has("COLL_IB_SL", NULL));
  NCCL_OK(ncclBcast(&value, 1, ncclInt, 0, comm, NULL));
  NCCL_OK(ncclCommDestroy(comm));
  return 0;
}

Test(nccl_refusals, variables) {
  NCCL_RUN(1, variables);
}

/* NCCL_PROTO, and what it becomes; NULL: nothing. */
typedef struct protocol_names {
  const char *nccl, *coll;
} protocol_names_t;

static int translate_protocols(int rank, int size, void *context) {
  const protocol_names_t *names = context;
  ncclUniqueId id;
  (void)rank, (void)size;
  setenv("NCCL_PROTO", names->nccl, 1);
  if (log_to_memory() != 0) return 1;
  NCCL_OK(ncclGetUniqueId(&id));
  NCCL_REQUIRE(has("COLL_CUDA_PROTOCOLS", names->coll) == (names->coll != NULL));
  return 0;
}

Test(nccl_refusals, protocols) {
  static protocol_names_t all[] = {
      {"Simple", "simple"},    {"LL,Simple", "simple,ll"}, {"ll128", "simple,ll128"},
      {"^LL128", "simple,ll"}, {"^LL,LL128", "simple"},    {"LL,LL128", "simple,ll,ll128"},
      {"allreduce:LL", NULL},
  };
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
    harness_result_t result;
    cr_assert(harness_run(1, 20000, translate_protocols, &all[i], &result), "%s", result.text);
  }
}

static int fixed_id(int rank, int size, void *context) {
  ncclUniqueId id;
  (void)rank, (void)size, (void)context;
  setenv("NCCL_COMM_ID", "10.0.0.1:5000", 1);
  NCCL_RESULT(ncclInvalidUsage, ncclGetUniqueId(&id));
  return 0;
}

Test(nccl_refusals, fixed_id) {
  NCCL_RUN(1, fixed_id);
}
