/*
 * How programs use NCCL, each test after the program that it names: who makes the ranks, how they
 * get the id, and which calls they group.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "nccl/interface.h"

#define COUNT 3000 /* of a rank's block: a multiple of 5, see nccl_test_fill */
#define RANKS 4
#define SUM 10.0f /* 1 + 2 + 3 + 4 */

/* ---- nccl-tests: several ranks per process, every call a group over them ---------------------*/

typedef struct local {
  ncclComm_t comm;
  int rank;
  float *send, *recv; /* RANKS * COUNT */
} local_t;

static void reset(local_t *locals, int count) {
  for (int i = 0; i < count; i++) {
    nccl_test_fill(locals[i].send, RANKS * COUNT, locals[i].rank);
    memset(locals[i].recv, 0, sizeof(float) * RANKS * COUNT);
  }
}

static int reduce_all(local_t *locals, int count) {
  for (int in_place = 0; in_place < 2; in_place++) {
    reset(locals, count);
    NCCL_OK(ncclGroupStart());
    for (int i = 0; i < count; i++) {
      local_t *l = &locals[i];
      NCCL_OK(ncclAllReduce(l->send, in_place ? l->send : l->recv, RANKS * COUNT, ncclFloat32,
                            ncclSum, l->comm, NULL));
    }
    NCCL_OK(ncclGroupEnd());
    for (int i = 0; i < count; i++) {
      float *out = in_place ? locals[i].send : locals[i].recv;
      NCCL_REQUIRE(nccl_test_holds(out, 0, RANKS * COUNT, SUM));
    }
  }
  return 0;
}

static int scatter_and_gather(local_t *locals, int count) {
  for (int in_place = 0; in_place < 2; in_place++) {
    reset(locals, count);
    NCCL_OK(ncclGroupStart());
    for (int i = 0; i < count; i++) {
      local_t *l = &locals[i];
      float *out = in_place ? l->send + l->rank * COUNT : l->recv;
      NCCL_OK(ncclReduceScatter(l->send, out, COUNT, ncclFloat32, ncclSum, l->comm, NULL));
    }
    NCCL_OK(ncclGroupEnd());
    NCCL_OK(ncclGroupStart());
    for (int i = 0; i < count; i++) {
      local_t *l = &locals[i];
      float *in = in_place ? l->send + l->rank * COUNT : l->recv;
      NCCL_REQUIRE(nccl_test_holds(in, 0, COUNT, SUM));
      NCCL_OK(ncclAllGather(in, l->send, COUNT, ncclFloat32, l->comm, NULL));
    }
    NCCL_OK(ncclGroupEnd());
    for (int i = 0; i < count; i++) {
      NCCL_REQUIRE(nccl_test_holds(locals[i].send, 0, RANKS * COUNT, SUM));
    }
  }
  return 0;
}

static int rooted(local_t *locals, int count) {
  for (int root = 0; root < RANKS; root += RANKS - 1) {
    reset(locals, count);
    NCCL_OK(ncclGroupStart());
    for (int i = 0; i < count; i++) {
      NCCL_OK(ncclReduce(locals[i].send, locals[i].recv, COUNT, ncclFloat32, ncclMax, root,
                         locals[i].comm, NULL));
    }
    NCCL_OK(ncclGroupEnd());
    NCCL_OK(ncclGroupStart());
    for (int i = 0; i < count; i++) {
      NCCL_OK(ncclBcast(locals[i].recv, COUNT, ncclFloat32, root, locals[i].comm, NULL));
    }
    NCCL_OK(ncclGroupEnd());
    for (int i = 0; i < count; i++) {
      NCCL_REQUIRE(nccl_test_holds(locals[i].recv, 0, COUNT, RANKS));
    }
  }
  return 0;
}

static int all_to_all(local_t *locals, int count) {
  reset(locals, count);
  NCCL_OK(ncclGroupStart());
  for (int i = 0; i < count; i++) {
    for (int peer = 0; peer < RANKS; peer++) {
      NCCL_OK(
          ncclSend(locals[i].send + peer * COUNT, COUNT, ncclFloat32, peer, locals[i].comm, NULL));
      NCCL_OK(
          ncclRecv(locals[i].recv + peer * COUNT, COUNT, ncclFloat32, peer, locals[i].comm, NULL));
    }
  }
  NCCL_OK(ncclGroupEnd());
  for (int i = 0; i < count; i++) {
    for (int peer = 0; peer < RANKS; peer++) {
      NCCL_REQUIRE(nccl_test_holds(locals[i].recv + peer * COUNT, 0, COUNT, (float)peer + 1));
    }
  }
  return 0;
}

static int run_tests(local_t *locals, int count) {
  for (int i = 0; i < count; i++) {
    int size, rank, device;
    NCCL_OK(ncclCommCount(locals[i].comm, &size));
    NCCL_OK(ncclCommUserRank(locals[i].comm, &rank));
    NCCL_OK(ncclCommCuDevice(locals[i].comm, &device));
    NCCL_REQUIRE(size == RANKS && rank == locals[i].rank);
    NCCL_OK(ncclMemAlloc((void **)&locals[i].send, sizeof(float) * RANKS * COUNT));
    locals[i].recv = malloc(sizeof(float) * RANKS * COUNT);
  }
  if (reduce_all(locals, count) || scatter_and_gather(locals, count)) return 1;
  if (rooted(locals, count) || all_to_all(locals, count)) return 1;
  for (int i = 0; i < count; i++) {
    NCCL_OK(ncclCommFinalize(locals[i].comm));
    NCCL_OK(ncclMemFree(locals[i].send));
    free(locals[i].recv);
  }
  for (int i = 0; i < count; i++) NCCL_OK(ncclCommDestroy(locals[i].comm));
  return 0;
}

static int one_process(int process, int processes, void *context) {
  const int devices[RANKS] = {0, 1, 2, 3};
  ncclComm_t comms[RANKS];
  local_t locals[RANKS];
  (void)process, (void)processes, (void)context;
  NCCL_OK(ncclCommInitAll(comms, RANKS, devices));
  for (int i = 0; i < RANKS; i++) locals[i] = (local_t){.comm = comms[i], .rank = i};
  return run_tests(locals, RANKS);
}

Test(nccl_patterns, nccl_tests_one_process) {
  NCCL_RUN(1, one_process);
}

static int two_processes(int process, int processes, void *context) {
  enum { LOCAL = RANKS / 2 };
  ncclUniqueId *id = harness_board();
  local_t locals[LOCAL];
  (void)processes, (void)context;
  if (process == 0) NCCL_OK(ncclGetUniqueId(id));
  harness_barrier();
  NCCL_OK(ncclGroupStart());
  for (int i = 0; i < LOCAL; i++) {
    locals[i] = (local_t){.rank = process * LOCAL + i};
    NCCL_OK(ncclCommInitRank(&locals[i].comm, RANKS, *id, locals[i].rank));
  }
  NCCL_OK(ncclGroupEnd());
  return run_tests(locals, LOCAL);
}

Test(nccl_patterns, nccl_tests_two_processes) {
  NCCL_RUN(2, two_processes);
}

/* ---- OSU micro-benchmarks (xccl): one rank per process, every call alone ---------------------*/

static int osu(int rank, int size, void *context) {
  static _Thread_local float send[RANKS * COUNT], recv[RANKS * COUNT];
  ncclComm_t comm;
  (void)context;
  if (nccl_test_init(rank, size, &comm)) return 1;
  for (size_t count = 5; count <= COUNT; count *= 5) {
    nccl_test_fill(send, RANKS * count, rank);
    NCCL_OK(ncclAllReduce(send, recv, count, ncclFloat, ncclSum, comm, NULL));
    NCCL_REQUIRE(nccl_test_holds(recv, 0, count, SUM));
    NCCL_OK(ncclBroadcast(send, recv, count, ncclFloat, 1, comm, NULL));
    NCCL_REQUIRE(nccl_test_holds(recv, 0, count, 2.0f));
    NCCL_OK(ncclAllGather(send, recv, count, ncclFloat, comm, NULL));
    NCCL_REQUIRE(nccl_test_holds(recv + 2 * count, 0, count, 3.0f));
    NCCL_OK(ncclAlltoAll(send, recv, count, ncclFloat, comm, NULL));
    NCCL_REQUIRE(nccl_test_holds(recv + 3 * count, 0, count, 4.0f));
    NCCL_OK(ncclGather(send, recv, count, ncclFloat, 1, comm, NULL));
    NCCL_REQUIRE(rank != 1 || nccl_test_holds(recv, 0, count, 1.0f));
    NCCL_OK(ncclScatter(send, recv, count, ncclFloat, 3, comm, NULL));
    NCCL_REQUIRE(nccl_test_holds(recv, 0, count, 4.0f));
    if (rank == 0) NCCL_OK(ncclSend(send, count, ncclChar, 1, comm, NULL));
    if (rank == 1) NCCL_OK(ncclRecv(recv, count, ncclChar, 0, comm, NULL));
  }
  NCCL_OK(ncclCommDestroy(comm));
  return 0;
}

Test(nccl_patterns, osu_xccl) {
  NCCL_RUN(RANKS, osu);
}

/* nccl-tests has this, too: a thread per rank. */
Test(nccl_patterns, osu_xccl_in_threads) {
  harness_result_t run;
  cr_assert(harness_run_threads(RANKS, 20000, osu, NULL, &run), "%s", run.text);
}

/* The same on two hosts, as far as the library can see, without any setting of an address. */
static int two_hosts(int rank, int size, void *context) {
  setenv("NCCL_HOSTID", rank % 2 == 0 ? "a" : "b", 1);
  return osu(rank, size, context);
}

Test(nccl_patterns, osu_xccl_two_hosts) {
  NCCL_RUN(RANKS, two_hosts);
}

/* ---- llm.c: the id in a file, averages of gradients, shards in place -------------------------*/

static int llm_c(int rank, int size, void *context) {
  static float gradients[RANKS * COUNT];
  char *path = harness_board();
  ncclUniqueId id;
  ncclComm_t comm;
  (void)context;
  if (rank == 0) {
    snprintf(path, 64, "/tmp/nccl-id-%d", (int)getpid());
    NCCL_OK(ncclGetUniqueId(&id));
    FILE *file = fopen(path, "wb");
    NCCL_REQUIRE(file != NULL && fwrite(&id, sizeof id, 1, file) == 1);
    fclose(file);
  }
  harness_barrier();
  FILE *file = fopen(path, "rb");
  NCCL_REQUIRE(file != NULL && fread(&id, sizeof id, 1, file) == 1);
  fclose(file);
  harness_barrier();
  if (rank == 0) unlink(path);
  NCCL_OK(ncclCommInitRank(&comm, size, id, rank));

  float loss = (float)rank;
  NCCL_OK(ncclAllReduce(&loss, &loss, 1, ncclFloat, ncclAvg, comm, NULL));
  NCCL_REQUIRE(loss == (RANKS - 1) / 2.0f);
  nccl_test_fill(gradients, RANKS * COUNT, rank);
  NCCL_OK(ncclGroupStart());
  for (int part = 0; part < 3; part++) { /* tensors of one layer, each shard in place */
    float *tensor = gradients + part * COUNT;
    NCCL_OK(ncclReduceScatter(tensor, tensor + rank * (COUNT / RANKS), COUNT / RANKS, ncclFloat,
                              ncclAvg, comm, NULL));
  }
  NCCL_OK(ncclGroupEnd());
  for (int part = 0; part < 3; part++) {
    float *tensor = gradients + part * COUNT;
    NCCL_OK(ncclAllGather(tensor + rank * (COUNT / RANKS), tensor, COUNT / RANKS, ncclFloat, comm,
                          NULL));
    NCCL_REQUIRE(nccl_test_holds(tensor, 0, COUNT, SUM / RANKS));
  }
  NCCL_OK(ncclCommDestroy(comm));
  return 0;
}

Test(nccl_patterns, llm_c) {
  NCCL_RUN(RANKS, llm_c);
}

/* ---- Megatron-LM, DeepSpeed: split communicators, pipelines of sends and receives ------------*/

/* Each stage sends forward and receives from behind in one group, round the ring. */
static int shift(ncclComm_t comm, int rank, int size, float *send, float *recv) {
  int next = (rank + 1) % size, previous = (rank + size - 1) % size;
  nccl_test_fill(send, COUNT, rank);
  for (int step = 0; step < size; step++) {
    NCCL_OK(ncclGroupStart());
    NCCL_OK(ncclSend(send, COUNT, ncclFloat, next, comm, NULL));
    NCCL_OK(ncclRecv(recv, COUNT, ncclFloat, previous, comm, NULL));
    NCCL_OK(ncclGroupEnd());
    memcpy(send, recv, sizeof(float) * COUNT);
  }
  NCCL_REQUIRE(nccl_test_holds(send, 0, COUNT, (float)rank + 1)); /* back where it started */
  return 0;
}

static int megatron(int rank, int size, void *context) {
  static float send[RANKS * COUNT], recv[RANKS * COUNT];
  ncclComm_t world, tensor, data;
  float factor = rank == 0 ? 0.5f : 2.0f;
  ncclRedOp_t scaled;
  void *registered;
  (void)context;
  if (nccl_test_init(rank, size, &world)) return 1;
  NCCL_OK(ncclCommSplit(world, rank / 2, rank, &tensor, NULL));
  NCCL_OK(ncclCommSplit(world, rank % 2, -rank, &data, NULL)); /* in reverse */
  if (shift(world, rank, size, send, recv)) return 1;

  nccl_test_fill(send, 2 * COUNT, rank);
  NCCL_OK(ncclCommRegister(world, send, sizeof send, &registered));
  NCCL_OK(ncclGroupStart()); /* one group, several communicators */
  NCCL_OK(ncclAllReduce(send, recv, COUNT, ncclFloat, ncclSum, tensor, NULL));
  NCCL_OK(ncclAllReduce(send, recv + COUNT, COUNT, ncclFloat, ncclSum, data, NULL));
  NCCL_OK(ncclGroupEnd());
  NCCL_REQUIRE(nccl_test_holds(recv, 0, COUNT, rank / 2 == 0 ? 3.0f : 7.0f));
  NCCL_REQUIRE(nccl_test_holds(recv + COUNT, 0, COUNT, rank % 2 == 0 ? 4.0f : 6.0f));
  NCCL_OK(ncclReduceScatter(send, send + (1 - rank / 2) * COUNT, COUNT, ncclFloat, ncclSum, data,
                            NULL));
  NCCL_REQUIRE(nccl_test_holds(send + (1 - rank / 2) * COUNT, 0, COUNT, rank % 2 ? 6.0f : 4.0f));
  NCCL_OK(ncclCommDeregister(world, registered));

  nccl_test_fill(send, COUNT, rank);
  NCCL_OK(ncclRedOpCreatePreMulSum(&scaled, &factor, ncclFloat, ncclScalarHostImmediate, world));
  NCCL_OK(ncclAllReduce(send, recv, COUNT, ncclFloat, scaled, world, NULL));
  NCCL_OK(ncclRedOpDestroy(scaled, world));
  NCCL_REQUIRE(nccl_test_holds(recv, 0, COUNT, 0.5f + 2 * (SUM - 1)));
  NCCL_OK(ncclCommDestroy(tensor));
  NCCL_OK(ncclCommDestroy(data));
  NCCL_OK(ncclCommDestroy(world));
  return 0;
}

Test(nccl_patterns, megatron) {
  NCCL_RUN(RANKS, megatron);
}
