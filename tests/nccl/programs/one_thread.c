/*
 * After CuPy's NcclCommunicator (cupy.cuda.nccl) in one process: ncclCommInitAll, one thread, and a
 * group over all GPUs for every call; on streams of its own, and on the default streams.
 */
#include "common.h"

#define COUNT 5000

static int size;
static ncclComm_t comms[PROGRAM_GPUS_MAX];
static cudaStream_t streams[PROGRAM_GPUS_MAX];
static float *sends[PROGRAM_GPUS_MAX], *recvs[PROGRAM_GPUS_MAX]; /* size * COUNT */

static void create(void) {
  int devices[PROGRAM_GPUS_MAX];
  for (int i = 0; i < size; i++) devices[i] = i;
  NCCL(ncclCommInitAll(comms, size, devices));
  for (int i = 0; i < size; i++) {
    int rank, count, device;
    program_use_gpu(i);
    NCCL(ncclCommUserRank(comms[i], &rank));
    NCCL(ncclCommCount(comms[i], &count));
    NCCL(ncclCommCuDevice(comms[i], &device));
    REQUIRE(rank == i && count == size && device == i, "rank %d of %d on GPU %d", rank, count,
            device);
    streams[i] = stream_new();
    sends[i] = memory_new(sizeof(float) * COUNT * (size_t)size);
    recvs[i] = memory_new(sizeof(float) * COUNT * (size_t)size);
    fill(sends[i], COUNT * (size_t)size, 0, i, streams[i]);
  }
}

static void reduce(int root) {
  NCCL(ncclGroupStart());
  for (int i = 0; i < size; i++) {
    NCCL(ncclReduce(sends[i], recvs[i], COUNT, ncclFloat, ncclSum, root, comms[i], streams[i]));
  }
  NCCL(ncclGroupEnd());
  program_use_gpu(root);
  expect(recvs[root], COUNT, 0, sum_of_ranks(size), streams[root], "reduce");
}

static void broadcast(int root) {
  NCCL(ncclGroupStart());
  for (int i = 0; i < size; i++) {
    NCCL(ncclBroadcast(sends[i], recvs[i], COUNT, ncclFloat, root, comms[i], streams[i]));
  }
  NCCL(ncclGroupEnd());
  for (int i = 0; i < size; i++) {
    program_use_gpu(i);
    expect(recvs[i], COUNT, 0, root + 1, streams[i], "broadcast");
  }
}

static void all_gather(void) {
  NCCL(ncclGroupStart());
  for (int i = 0; i < size; i++) {
    NCCL(ncclAllGather(sends[i], recvs[i], COUNT, ncclFloat, comms[i], streams[i]));
  }
  NCCL(ncclGroupEnd());
  for (int i = 0; i < size; i++) {
    program_use_gpu(i);
    for (int j = 0; j < size; j++) {
      expect(recvs[i] + j * COUNT, COUNT, 0, j + 1, streams[i], "allgather");
    }
  }
}

/* GPU i sends to the next one, round the ring. */
static void shift(void) {
  NCCL(ncclGroupStart());
  for (int i = 0; i < size; i++) {
    NCCL(ncclSend(sends[i], COUNT, ncclFloat, (i + 1) % size, comms[i], streams[i]));
    NCCL(ncclRecv(recvs[i], COUNT, ncclFloat, (i + size - 1) % size, comms[i], streams[i]));
  }
  NCCL(ncclGroupEnd());
  for (int i = 0; i < size; i++) {
    program_use_gpu(i);
    expect(recvs[i], COUNT, 0, (i + size - 1) % size + 1, streams[i], "send and receive");
  }
}

/* The first call: GPU 0 sends to the last one, and the others take no part. */
static void send_first(ncclComm_t made[]) {
  int last = size - 1;
  NCCL(ncclGroupStart());
  NCCL(ncclSend(sends[0], COUNT, ncclFloat, last, made[0], streams[0]));
  NCCL(ncclRecv(recvs[last], COUNT, ncclFloat, 0, made[last], streams[last]));
  NCCL(ncclGroupEnd());
  program_use_gpu(last);
  expect(recvs[last], COUNT, 0, 1, streams[last], "first send");
}

/* The same on communicators that a group of ncclCommInitRank makes, as nccl-tests does. */
static void send_first_by_id(void) {
  ncclUniqueId id;
  ncclComm_t made[PROGRAM_GPUS_MAX];
  NCCL(ncclGetUniqueId(&id));
  NCCL(ncclGroupStart());
  for (int i = 0; i < size; i++) {
    program_use_gpu(i);
    NCCL(ncclCommInitRank(&made[i], size, id, i));
  }
  NCCL(ncclGroupEnd());
  send_first(made);
  for (int i = 0; i < size; i++) NCCL(ncclCommDestroy(made[i]));
}

static void run_all(void) {
  for (int root = 0; root < size; root++) {
    reduce(root);
    broadcast(root);
  }
  all_gather();
  shift();
  for (int i = 0; i < size; i++) {
    program_use_gpu(i);
    stream_wait(streams[i]);
  }
}

int main(int argc, char **argv) {
  cudaStream_t own[PROGRAM_GPUS_MAX];
  size = program_start(argc, argv);
  create();
  send_first(comms);
  send_first_by_id();
  run_all();
  memcpy(own, streams, sizeof own);
  for (int kind = 0; kind < 3; kind++) {
    cudaStream_t const defaults[] = {NULL, cudaStreamLegacy, cudaStreamPerThread};
    for (int i = 0; i < size; i++) streams[i] = defaults[kind];
    run_all();
  }
  for (int i = 0; i < size; i++) {
    program_use_gpu(i);
    NCCL(ncclCommDestroy(comms[i]));
    stream_free(own[i]);
    memory_free(sends[i]);
    memory_free(recvs[i]);
  }
  printf("one thread, %d GPUs: all right\n", size);
  return 0;
}
