/*
 * After NCCL's example "one device per thread", and OSU's and PyTorch's threaded tests: each thread
 * makes its own rank by a common id, and calls on its own stream without a group.
 */
#include <pthread.h>

#include "common.h"

#define COUNT 3001
#define ROUNDS 20

static int size;
static ncclUniqueId id;

static void run_rounds(int rank, ncclComm_t comm, cudaStream_t stream) {
  float *send = memory_new(sizeof(float) * COUNT), *recv = memory_new(sizeof(float) * COUNT);
  float *all = memory_new(sizeof(float) * COUNT * (size_t)size);
  for (int round = 0; round < ROUNDS; round++) {
    size_t count = (size_t)(1 + round * 157);
    fill(send, count, (size_t)round, rank, stream);
    NCCL(ncclAllReduce(send, recv, count, ncclFloat, ncclSum, comm, stream));
    expect(recv, count, (size_t)round, sum_of_ranks(size), stream, "allreduce");
    NCCL(ncclAllGather(recv, all, count, ncclFloat, comm, stream));
    NCCL(ncclReduceScatter(all, send, count, ncclFloat, ncclMax, comm, stream));
    expect(send, count, (size_t)round, sum_of_ranks(size), stream, "reduce-scatter");
  }
  memory_free(send);
  memory_free(recv);
  memory_free(all);
}

static void *run(void *argument) {
  int rank = *(int *)argument;
  ncclComm_t comm;
  program_use_gpu(rank);
  cudaStream_t stream = stream_new();
  NCCL(ncclCommInitRank(&comm, size, id, rank));
  run_rounds(rank, comm, stream);
  stream_wait(stream);
  NCCL(ncclCommFinalize(comm));
  NCCL(ncclCommDestroy(comm));
  stream_free(stream);
  return NULL;
}

int main(int argc, char **argv) {
  pthread_t threads[PROGRAM_GPUS_MAX];
  int ranks[PROGRAM_GPUS_MAX];
  size = program_start(argc, argv);
  NCCL(ncclGetUniqueId(&id));
  for (int i = 0; i < size; i++) {
    ranks[i] = i;
    REQUIRE(pthread_create(&threads[i], NULL, run, &ranks[i]) == 0, "no thread");
  }
  for (int i = 0; i < size; i++) pthread_join(threads[i], NULL);
  printf("a thread per rank, %d GPUs: all right\n", size);
  return 0;
}
